package listen

import (
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy/auth/authtest"
)

// files is a folder of certificates, and who issues them.
type files struct {
	*authtest.CA
	dir string
}

func newFiles(t *testing.T) *files {
	t.Helper()
	return &files{authtest.NewCA(t), t.TempDir()}
}

func (f *files) path(name string) string { return filepath.Join(f.dir, name) }

// lasts writes the gateway's own certificate, valid until some time, and its key.
func (f *files) lasts(t *testing.T, until time.Time) *x509.Certificate {
	t.Helper()
	leaf, cert, key := f.Gateway(t, until)
	f.replace(t, "cert.pem", cert)
	f.replace(t, "key.pem", key)
	return leaf
}

// replace puts another file in the place of one, as those who renew certificates do.
func (f *files) replace(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(f.path(name+".new"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path(name+".new"), f.path(name)); err != nil {
		t.Fatal(err)
	}
}

// certificates is what a listener shows of the folder.
func (f *files) certificates(t *testing.T, ca string) (*Certificates, *strings.Builder) {
	t.Helper()
	c := &config.Config{}
	c.Toolgate.Listen.TLS = config.TLS{Cert: f.path("cert.pem"), Key: f.path("key.pem"), ClientCA: ca}
	certs, err := NewCertificates(c)
	if err != nil {
		t.Fatal(err)
	}
	said := &strings.Builder{}
	certs.log = slog.New(slog.NewTextHandler(said, nil))
	return certs, said
}

// A certificate whose time is over, has not come or ends soon is said.
func TestCertificateTimesAreSaid(t *testing.T) {
	ca := newFiles(t)
	for name, tt := range map[string]struct {
		until time.Duration
		want  string
	}{
		"expired":       {-time.Hour, "it has expired at"},
		"not yet valid": {24 * time.Hour, "it is not valid before"}, // valid for two hours
		"ends soon":     {time.Hour, "it expires at"},
	} {
		ca.lasts(t, time.Now().Add(tt.until))
		certs, said := ca.certificates(t, "")
		if got := certs.Problem(time.Now()); !strings.Contains(got, tt.want) || !strings.Contains(got, "cert.pem") {
			t.Errorf("%s: %q", name, got)
		}
		certs.latest(time.Now().Add(time.Hour))
		if said.String() != "" {
			t.Errorf("%s: said again within a day: %s", name, said)
		}
		certs.latest(time.Now().Add(25 * time.Hour))
		if !strings.Contains(said.String(), "listen.tls") {
			t.Errorf("%s: not said after a day", name)
		}
	}
	ca.lasts(t, time.Now().Add(time.Hour))
	certs, said := ca.certificates(t, "")
	good := time.Now().Add(-30 * 24 * time.Hour)
	certs.current.Load().leaf.NotBefore = good.Add(-time.Hour)
	if got := certs.Problem(good); got != "" || certs.latest(good) == nil || said.String() != "" {
		t.Errorf("one that is good for long: %q, %s", got, said)
	}
	if (*Certificates)(nil).Problem(time.Now()) != "" {
		t.Error("plain HTTP has a problem")
	}
}

// Files that change are read again, at most once a second; what cannot be used
// leaves what was.
func TestCertificatesAreReadAgain(t *testing.T) {
	ca := newFiles(t)
	until := time.Now().Add(90 * 24 * time.Hour)
	first := ca.lasts(t, until)
	ca.replace(t, "ca.pem", ca.PEM)
	certs, said := ca.certificates(t, ca.path("ca.pem"))
	now := time.Now()
	shown := func(after time.Duration) *generation {
		now = now.Add(after)
		return certs.latest(now)
	}
	before := shown(2 * time.Second)
	second := ca.lasts(t, until)
	if shown(time.Millisecond) != before {
		t.Error("the files are looked at more than once a second")
	}
	got := shown(2 * time.Second)
	if !got.leaf.Equal(second) || got.leaf.Equal(first) {
		t.Errorf("shown is the certificate of %v", got.leaf.SerialNumber)
	}
	for name, text := range map[string]string{"cert.pem": "half", "ca.pem": "none", "key.pem": "another"} {
		kept, err := os.ReadFile(ca.path(name))
		if err != nil {
			t.Fatal(err)
		}
		ca.replace(t, name, []byte(text))
		if shown(2*time.Second) != got {
			t.Errorf("a bad %s is used", name)
		}
		ca.replace(t, name, kept)
		if got = shown(2 * time.Second); !got.leaf.Equal(second) {
			t.Errorf("a good %s is not used again", name)
		}
	}
	if n := strings.Count(said.String(), "cannot be used"); n != 1 {
		t.Errorf("said %d times that files cannot be used, within a minute: %s", n, said)
	}
	other := authtest.NewCA(t)
	ca.replace(t, "ca.pem", other.PEM)
	pool := x509.NewCertPool()
	pool.AddCert(other.Cert)
	if !shown(2 * time.Second).config.ClientCAs.Equal(pool) {
		t.Error("the authorities of clients are those before")
	}
}

// What connections go through is said in few lines, and a panic always.
func TestServerLogIsBounded(t *testing.T) {
	var said strings.Builder
	s := &serverLog{log: slog.New(slog.NewTextHandler(&said, nil))}
	server := slog.NewLogLogger(s, slog.LevelWarn)
	for range 1000 {
		server.Print("http: TLS handshake error from 192.0.2.1:1: EOF")
	}
	server.Print("http: panic serving 192.0.2.1:1: boom\ngoroutine 1")
	if n := strings.Count(said.String(), "handshake"); n != maxServerLines {
		t.Errorf("%d lines of 1000", n)
	}
	if !strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("no panic: %s", said.String())
	}
	s.since = time.Now().Add(-time.Hour)
	server.Print("http: again")
	if !strings.Contains(said.String(), "number=990") {
		t.Error("not said how many were left out")
	}
}
