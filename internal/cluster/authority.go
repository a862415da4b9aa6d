package cluster

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/seal"
)

const (
	// certificateEarly is how long a certificate is valid before it is made: clocks of
	// members may differ.
	certificateEarly = 24 * time.Hour
	// certificateLife is how long it is valid afterwards, and certificateAge how long it is
	// shown.
	certificateLife = 30 * 24 * time.Hour
	certificateAge  = 24 * time.Hour
	// authorityLife bounds the authority, which no one keeps.
	authorityLife = 50 * 365 * 24 * time.Hour
)

// authority proves to members that they have the same sealing keys. It is derived from the
// keys, newest first: the first signs, all count. It is safe for concurrent use.
type authority struct {
	id    string
	roots *x509.CertPool
	ca    *x509.Certificate
	key   ed25519.PrivateKey

	mu    sync.Mutex
	shown *tls.Certificate
	made  time.Time
}

func newAuthority(keys *seal.Keyring, id string) (*authority, error) {
	secrets, err := keys.Derive("cluster")
	if err != nil {
		return nil, fmt.Errorf("derive the authority of the cluster: %w", err)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("derive the authority of the cluster: there is no key; see toolgate.keys")
	}
	a := &authority{id: id, roots: x509.NewCertPool()}
	for _, s := range secrets {
		key := ed25519.NewKeyFromSeed(s.Secret[:ed25519.SeedSize])
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "toolgate cluster " + s.ID},
			NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(authorityLife),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, fmt.Errorf("make the authority of the cluster: %w", err)
		}
		ca, err := x509.ParseCertificate(raw)
		if err != nil {
			return nil, fmt.Errorf("make the authority of the cluster: %w", err)
		}
		a.roots.AddCert(ca)
		if a.ca == nil {
			a.ca, a.key = ca, key
		}
	}
	return a, nil
}

// serverName is the name of a member in its certificate.
func serverName(id string) string { return id + ".member.toolgate.invalid" }

// certificate returns the certificate of this member, made anew each day.
func (a *authority) certificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.shown != nil && now.Sub(a.made) < certificateAge && !now.Before(a.made) {
		return a.shown, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: a.id}, DNSNames: []string{serverName(a.id)},
		NotBefore: now.Add(-certificateEarly), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.ca, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of this member: %w", err)
	}
	a.shown, a.made = &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, now
	return a.shown, nil
}

// server is how this member is reached: by members alone.
func (a *authority) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}, ClientCAs: a.roots, ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate() },
	}
}

// client is how this member reaches another, and nobody in its place, over a protocol.
func (a *authority) client(id, protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol}, RootCAs: a.roots, ServerName: serverName(id),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.certificate() },
	}
}
