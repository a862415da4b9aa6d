package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
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

// ListenTLS is what a listener shows, and whose certificates of clients count,
// as the files of listen.tls have it. They are read again when the files change;
// what cannot be read is left as it was. Connections go on with what they began
// with. It is safe for concurrent use.
type ListenTLS struct {
	of       config.TLS
	required bool         // clients need one
	Log      *slog.Logger // set before the first handshake

	Current atomic.Pointer[CertGeneration]

	mu     sync.Mutex // held by who looks at the files
	looked time.Time
	warned time.Time // of what cannot be read
	told   time.Time // of the end of the certificate
}

// CertGeneration is one generation of what is shown.
type CertGeneration struct {
	Config *tls.Config
	Leaf   *x509.Certificate
	files  []fs.FileInfo // as they were when they were read; nil for one that was not there
}

// NewListenTLS reads the certificates of a configuration; nil where it has none.
// The error names the setting.
func NewListenTLS(c *config.Config) (*ListenTLS, error) {
	if c.Toolgate.Listen.TLS.Cert == "" {
		return nil, nil
	}
	certs := &ListenTLS{of: c.Toolgate.Listen.TLS, required: c.Toolgate.Auth.MTLS.Required, looked: time.Now()}
	now, err := certs.read()
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	certs.Current.Store(now)
	return certs, nil
}

// read reads all files.
func (c *ListenTLS) read() (*CertGeneration, error) {
	s := &CertGeneration{files: c.stamps()} // before they are read: a change meanwhile is seen at the next look
	cert, err := tls.LoadX509KeyPair(c.of.Cert, c.of.Key)
	if err != nil {
		return nil, fmt.Errorf("listen.tls: %w; cert and key must name the PEM files of one certificate and of its key", err)
	}
	s.Leaf = cert.Leaf
	s.Config = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.of.ClientCA == "" {
		return s, nil
	}
	text, err := os.ReadFile(c.of.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("listen.tls.client_ca: %w; name the PEM file of the authorities whose client certificates count", err)
	}
	s.Config.ClientCAs, s.Config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !s.Config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("listen.tls.client_ca: %s holds no certificate in PEM; name the file of the authorities whose client certificates count", c.of.ClientCA)
	}
	if c.required {
		s.Config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return s, nil
}

// stamps looks at all files.
func (c *ListenTLS) stamps() []fs.FileInfo {
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
func (c *ListenTLS) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.Latest(time.Now()).Config, nil
		},
	})
}

// Latest is what is shown now. One of many handshakes at once looks at the files,
// the others take what is known.
func (c *ListenTLS) Latest(now time.Time) *CertGeneration {
	if !c.mu.TryLock() {
		return c.Current.Load()
	}
	defer c.mu.Unlock()
	known := c.Current.Load()
	if now.Sub(c.looked) < certificateLook {
		return known
	}
	c.looked = now
	if c.changed(known) {
		known = c.renew(known, now)
	}
	if text := known.validity(now); text != "" && now.Sub(c.told) >= certificateReminder {
		c.told = now
		c.Log.Warn("the certificate of listen.tls is not good for long, or not at all", "file", c.of.Cert, "problem", text)
	}
	return known
}

func (c *ListenTLS) changed(known *CertGeneration) bool {
	for i, stamp := range c.stamps() {
		if !unchanged(known.files[i], stamp) {
			return true
		}
	}
	return false
}

// renew reads the files that have changed; mu is held.
func (c *ListenTLS) renew(known *CertGeneration, now time.Time) *CertGeneration {
	next, err := c.read()
	if err != nil { // perhaps the other file is still to come
		if now.Sub(c.warned) >= time.Minute {
			c.warned = now
			c.Log.Warn("the files of listen.tls have changed and cannot be used; the certificate before is served on", "err", err)
		}
		return known
	}
	c.Current.Store(next)
	c.told = time.Time{}
	c.Log.Info("the certificate of listen.tls was read again", "file", c.of.Cert, "until", next.Leaf.NotAfter)
	return next
}

// validity says what is wrong with the time of the certificate, empty for nothing.
func (s *CertGeneration) validity(now time.Time) string {
	switch day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }; {
	case now.Before(s.Leaf.NotBefore):
		return "it is not valid before " + day(s.Leaf.NotBefore) + "; clients refuse it until then"
	case now.After(s.Leaf.NotAfter):
		return "it has expired at " + day(s.Leaf.NotAfter) + "; clients refuse it"
	case now.Add(certificateWarning).After(s.Leaf.NotAfter):
		return "it expires at " + day(s.Leaf.NotAfter) + "; replace the files, they are read again by themselves"
	}
	return ""
}

// Problem is what a person is told at the start; empty for nothing. c may be nil.
func (c *ListenTLS) Problem(now time.Time) string {
	if c == nil {
		return ""
	}
	text := c.Current.Load().validity(now)
	if text == "" {
		return ""
	}
	c.told = now
	return "listen.tls: " + c.of.Cert + ": " + text
}
