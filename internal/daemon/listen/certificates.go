package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/failure"
)

const (
	// certificateLook is how often, at most, handshakes look whether the files of
	// certificates have changed.
	certificateLook = time.Second
	// certificateWarning is how long before its end a certificate is warned of, and
	// certificateReminder how often while it is served.
	certificateWarning  = 7 * 24 * time.Hour
	certificateReminder = 24 * time.Hour
)

// Certificates is what a listener shows, and whose certificates of clients count,
// as the files of listen.tls have it. They are read again when the files change;
// what cannot be read is left as it was. Connections go on with what they began
// with. It is safe for concurrent use.
type Certificates struct {
	of       config.TLS
	required bool         // clients need one
	log      *slog.Logger // that of a listener, which sets it before the first handshake

	current atomic.Pointer[generation]

	mu     sync.Mutex // held by who looks at the files
	looked time.Time
	warned time.Time // of what cannot be read
	told   time.Time // of the end of the certificate
}

// generation is one generation of what is shown.
type generation struct {
	config *tls.Config
	leaf   *x509.Certificate
	files  []fs.FileInfo // as they were when they were read; nil for one that was not there
}

// NewCertificates reads the certificates of a configuration; nil where it has none.
// The error names the setting.
func NewCertificates(c *config.Config) (*Certificates, error) {
	if c.Toolgate.Listen.TLS.Cert == "" {
		return nil, nil
	}
	certs := &Certificates{of: c.Toolgate.Listen.TLS, required: c.Toolgate.Auth.MTLS.Required, log: slog.New(slog.DiscardHandler), looked: time.Now()}
	now, err := certs.read()
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	certs.current.Store(now)
	return certs, nil
}

// pairError says which of the two files is wrong, if crypto/tls has found out.
func pairError(cert, key string, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "in certificate input"):
		return fmt.Errorf("%s has no certificate", cert)
	case strings.Contains(text, "in key input"):
		return fmt.Errorf("%s has no private key", key)
	case strings.Contains(text, "private key does not match"):
		return fmt.Errorf("the key in %s is not that of the certificate in %s", key, cert)
	}
	return err
}

// read reads all files.
func (c *Certificates) read() (*generation, error) {
	s := &generation{files: c.stamps()} // before they are read: a change meanwhile is seen at the next look
	cert, err := tls.LoadX509KeyPair(c.of.Cert, c.of.Key)
	if err != nil {
		return nil, fmt.Errorf("listen.tls: %w; cert and key must name the PEM files of one certificate and of its key", failure.Plain(pairError(c.of.Cert, c.of.Key, err)))
	}
	s.leaf = cert.Leaf
	s.config = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.of.ClientCA == "" {
		return s, nil
	}
	text, err := os.ReadFile(c.of.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("listen.tls.client_ca: %w; name the PEM file of the authorities whose client certificates count", err)
	}
	s.config.ClientCAs, s.config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !s.config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("listen.tls.client_ca: %s holds no certificate in PEM; name the file of the authorities whose client certificates count", c.of.ClientCA)
	}
	if c.required {
		s.config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return s, nil
}

// stamps looks at all files.
func (c *Certificates) stamps() []fs.FileInfo {
	var out []fs.FileInfo
	for _, name := range []string{c.of.Cert, c.of.Key, c.of.ClientCA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			info = nil
		}
		out = append(out, info)
	}
	return out
}

// unchanged tells whether a file is the one that was looked at before.
func unchanged(before, now fs.FileInfo) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

// listener puts TLS on top of a listener.
func (c *Certificates) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.latest(time.Now()).config, nil
		},
	})
}

// Verify returns the chains from certificates of a client, its own first, to the authorities
// of client_ca. It is for clients whose handshake was with another gateway. The error says
// that there is none.
func (c *Certificates) Verify(shown []*x509.Certificate) ([][]*x509.Certificate, error) {
	if c == nil || len(shown) == 0 {
		return nil, errNoClients
	}
	roots := c.latest(time.Now()).config.ClientCAs
	if roots == nil {
		return nil, errNoClients
	}
	between := x509.NewCertPool()
	for _, cert := range shown[1:] {
		between.AddCert(cert)
	}
	return shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

var errNoClients = errors.New("this gateway takes no certificates of clients (listen.tls.client_ca)")

// latest is what is shown now. One of many handshakes at once looks at the files,
// the others take what is known.
func (c *Certificates) latest(now time.Time) *generation {
	if !c.mu.TryLock() {
		return c.current.Load()
	}
	defer c.mu.Unlock()
	known := c.current.Load()
	if now.Sub(c.looked) < certificateLook {
		return known
	}
	c.looked = now
	if c.changed(known) {
		known = c.renew(known, now)
	}
	if text := known.validity(now); text != "" && now.Sub(c.told) >= certificateReminder {
		c.told = now
		c.log.Warn("the certificate of listen.tls is not good for long, or not at all", "file", c.of.Cert, "problem", text)
	}
	return known
}

func (c *Certificates) changed(known *generation) bool {
	for i, stamp := range c.stamps() {
		if !unchanged(known.files[i], stamp) {
			return true
		}
	}
	return false
}

// renew reads the files that have changed; mu is held.
func (c *Certificates) renew(known *generation, now time.Time) *generation {
	next, err := c.read()
	if err != nil { // perhaps the other file is still to come
		if now.Sub(c.warned) >= time.Minute {
			c.warned = now
			c.log.Warn("the files of listen.tls have changed and cannot be used; the certificate before is served on", "err", err)
		}
		return known
	}
	c.current.Store(next)
	c.told = time.Time{}
	c.log.Info("the certificate of listen.tls was read again", "file", c.of.Cert, "until", next.leaf.NotAfter)
	return next
}

// validity says what is wrong with the time of the certificate, empty for nothing.
func (s *generation) validity(now time.Time) string {
	switch day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }; {
	case now.Before(s.leaf.NotBefore):
		return "it is not valid before " + day(s.leaf.NotBefore) + "; clients refuse it until then"
	case now.After(s.leaf.NotAfter):
		return "it has expired at " + day(s.leaf.NotAfter) + "; clients refuse it"
	case now.Add(certificateWarning).After(s.leaf.NotAfter):
		return "it expires at " + day(s.leaf.NotAfter) + "; replace the files, they are read again by themselves"
	}
	return ""
}

// Problem is what a person is told at the start; empty for nothing. c may be nil.
func (c *Certificates) Problem(now time.Time) string {
	if c == nil {
		return ""
	}
	text := c.current.Load().validity(now)
	if text == "" {
		return ""
	}
	c.told = now
	return "listen.tls: " + c.of.Cert + ": " + text
}
