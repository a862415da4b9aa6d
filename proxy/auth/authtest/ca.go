// Package authtest issues certificates for tests.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// CA is a certificate authority for the duration of a test.
type CA struct {
	Cert *x509.Certificate
	PEM  []byte // of Cert
	key  crypto.Signer
}

// NewCA returns a new authority, which nobody trusts yet.
func NewCA(t testing.TB) *CA {
	t.Helper()
	c := &CA{key: newKey(t)}
	own := c.Issue(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, c.key)
	c.Cert = own.Leaf
	c.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	return c
}

// Issue returns a certificate for a key. It is valid for the hour before and after now,
// or for the two hours before the template's end.
func (c *CA) Issue(t testing.TB, template x509.Certificate, key crypto.Signer) *tls.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.NotBefore = template.NotAfter.Add(-2 * time.Hour)
	parent := c.Cert
	if parent == nil {
		parent = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Client returns a certificate with a new key, for a client unless the template says
// otherwise.
func (c *CA) Client(t testing.TB, template x509.Certificate) *tls.Certificate {
	t.Helper()
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return c.Issue(t, template, newKey(t))
}

// Gateway issues a certificate for a server on 127.0.0.1 that is valid until a time, or
// for an hour when that is zero. It also returns the certificate and its key in PEM.
func (c *CA) Gateway(t testing.TB, until time.Time) (leaf *x509.Certificate, cert, key []byte) {
	t.Helper()
	own := c.Client(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: until,
	})
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	return own.Leaf, cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
