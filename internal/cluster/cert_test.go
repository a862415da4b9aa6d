package cluster

import (
	"crypto/tls"
	"crypto/x509"
)

// leafOf returns the certificate that is shown.
func leafOf(cert *tls.Certificate) (*x509.Certificate, error) {
	return x509.ParseCertificate(cert.Certificate[0])
}

// verified is the state of a connection whose client has shown a certificate.
func verified(leaf *x509.Certificate) *tls.ConnectionState {
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
}
