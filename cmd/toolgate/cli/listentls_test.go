//go:build !windows

package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/mcp"
)

// lasts writes the gateway's own certificate, valid until some time, and its key.
func (c *pki) lasts(t *testing.T, h *home, until time.Time) *x509.Certificate {
	t.Helper()
	own := c.Client(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: until,
	})
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	h.replace(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
	h.replace(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	return own.Leaf
}

// replace puts another file in the place of one, as those who renew certificates do.
func (h *home) replace(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(h.path(name+".new"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(h.path(name+".new"), h.path(name)); err != nil {
		t.Fatal(err)
	}
}

// ofTLS is what a listener shows whose files are in a home.
func ofTLS(t *testing.T, h *home, ca string) (*daemon.ListenTLS, *strings.Builder) {
	t.Helper()
	c := &config.Config{}
	c.Toolgate.Listen.TLS = config.TLS{Cert: h.path("cert.pem"), Key: h.path("key.pem"), ClientCA: ca}
	certs, err := daemon.NewListenTLS(c)
	if err != nil {
		t.Fatal(err)
	}
	said := &strings.Builder{}
	certs.Log = slog.New(slog.NewTextHandler(said, nil))
	return certs, said
}

// A certificate whose time is over, has not come or ends soon is said.
func TestCertificateTimesAreSaid(t *testing.T) {
	h, ca := newHome(t), newPKI(t)
	for name, tt := range map[string]struct {
		until time.Duration
		want  string
	}{
		"expired":       {-time.Hour, "it has expired at"},
		"not yet valid": {24 * time.Hour, "it is not valid before"}, // valid for two hours
		"ends soon":     {time.Hour, "it expires at"},
	} {
		ca.lasts(t, h, time.Now().Add(tt.until))
		certs, said := ofTLS(t, h, "")
		if got := certs.Problem(time.Now()); !strings.Contains(got, tt.want) || !strings.Contains(got, "cert.pem") {
			t.Errorf("%s: %q", name, got)
		}
		certs.Latest(time.Now().Add(time.Hour))
		if said.String() != "" {
			t.Errorf("%s: said again within a day: %s", name, said)
		}
		certs.Latest(time.Now().Add(25 * time.Hour))
		if !strings.Contains(said.String(), "listen.tls") {
			t.Errorf("%s: not said after a day", name)
		}
	}
	ca.lasts(t, h, time.Now().Add(time.Hour))
	certs, said := ofTLS(t, h, "")
	good := time.Now().Add(-30 * 24 * time.Hour)
	certs.Current.Load().Leaf.NotBefore = good.Add(-time.Hour)
	if got := certs.Problem(good); got != "" || certs.Latest(good) == nil || said.String() != "" {
		t.Errorf("one that is good for long: %q, %s", got, said)
	}
	if (*daemon.ListenTLS)(nil).Problem(time.Now()) != "" {
		t.Error("plain HTTP has a problem")
	}
}

// Files that change are read again, at most once a second; what cannot be used
// leaves what was.
func TestCertificatesAreReadAgain(t *testing.T) {
	h, ca := newHome(t), newPKI(t)
	until := time.Now().Add(90 * 24 * time.Hour)
	first := ca.lasts(t, h, until)
	h.replace(t, "ca.pem", ca.PEM)
	certs, said := ofTLS(t, h, h.path("ca.pem"))
	now := time.Now()
	shown := func(after time.Duration) *daemon.CertGeneration {
		now = now.Add(after)
		return certs.Latest(now)
	}
	before := shown(2 * time.Second)
	second := ca.lasts(t, h, until)
	if shown(time.Millisecond) != before {
		t.Error("the files are looked at more than once a second")
	}
	got := shown(2 * time.Second)
	if !got.Leaf.Equal(second) || got.Leaf.Equal(first) {
		t.Errorf("shown is the certificate of %v", got.Leaf.SerialNumber)
	}
	for name, text := range map[string]string{"cert.pem": "half", "ca.pem": "none", "key.pem": "another"} {
		kept, err := os.ReadFile(h.path(name))
		if err != nil {
			t.Fatal(err)
		}
		h.replace(t, name, []byte(text))
		if shown(2*time.Second) != got {
			t.Errorf("a bad %s is used", name)
		}
		h.replace(t, name, kept)
		if got = shown(2 * time.Second); !got.Leaf.Equal(second) {
			t.Errorf("a good %s is not used again", name)
		}
	}
	if n := strings.Count(said.String(), "cannot be used"); n != 1 {
		t.Errorf("said %d times that files cannot be used, within a minute: %s", n, said)
	}
	other := newPKI(t)
	h.replace(t, "ca.pem", other.PEM)
	pool := x509.NewCertPool()
	pool.AddCert(other.Cert)
	if !shown(2 * time.Second).Config.ClientCAs.Equal(pool) {
		t.Error("the authorities of clients are those before")
	}
}

// A renewed certificate is served without an end of sessions and streams, over
// HTTP/2, and a failed handshake is a line of the log like any other.
func TestCertificateIsRenewedUnderSessions(t *testing.T) {
	t.Parallel()
	h, ca := newHome(t), newPKI(t)
	first := ca.lasts(t, h, time.Now().Add(time.Hour))
	h.write(t, servers{"a": fake("one")}, map[string]any{
		"listen": map[string]any{"tls": map[string]any{"cert": "cert.pem", "key": "key.pem"}},
		"log":    map[string]any{"format": "json"},
	})
	p, url := h.up(t)
	p.says(t, p.err, `listen\.tls: \S+cert\.pem: it expires at`)

	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: patience}
	send := func(method, session, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set(mcp.HeaderSession, session)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	opened := send(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	opened.Body.Close()
	session := opened.Header.Get(mcp.HeaderSession)
	if opened.ProtoMajor != 2 || session == "" || opened.TLS.PeerCertificates[0].SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Fatalf("%s %s, session %q", opened.Proto, opened.Status, session)
	}
	stream := send(http.MethodGet, session, "")
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK || stream.ProtoMajor != 2 {
		t.Fatalf("%s %s", stream.Proto, stream.Status)
	}
	call := send(http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__one"}}`)
	text, err := io.ReadAll(call.Body)
	call.Body.Close()
	if err != nil || !strings.Contains(string(text), `"id":2`) {
		t.Errorf("a call: %s, %v", text, err)
	}

	second := ca.lasts(t, h, time.Now().Add(110*time.Minute))
	eventually(t, "the new certificate is shown", func() bool {
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
		if err != nil {
			return false
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Cmp(second.SerialNumber) == 0
	})
	after := send(http.MethodPost, session, `{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	after.Body.Close()
	if after.StatusCode != http.StatusOK {
		t.Errorf("the session afterwards: %s", after.Status)
	}
	raw, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = raw.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	_, _ = bufio.NewReader(raw).ReadString('\n')
	raw.Close()
	line := p.says(t, p.err, `(?m)^(.*a connection failed.*)$`)[1]
	var parsed map[string]any
	if err := json.Unmarshal([]byte(line), &parsed); err != nil || !strings.Contains(line, "TLS handshake error") {
		t.Errorf("the line of a failed handshake: %s, %v", line, err)
	}
	p.stop(t, syscall.SIGTERM)
	if _, err := io.Copy(io.Discard, stream.Body); err != nil && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "GOAWAY") {
		t.Logf("the stream ended with %v", err)
	}
}

// What connections go through is said in few lines, and a panic always.
func TestServerLogIsBounded(t *testing.T) {
	var said strings.Builder
	s := &daemon.ServerLog{Log: slog.New(slog.NewTextHandler(&said, nil))}
	server := slog.NewLogLogger(s, slog.LevelWarn)
	for range 1000 {
		server.Print("http: TLS handshake error from 192.0.2.1:1: EOF")
	}
	server.Print("http: panic serving 192.0.2.1:1: boom\ngoroutine 1")
	if n := strings.Count(said.String(), "handshake"); n != daemon.MaxServerLines {
		t.Errorf("%d lines of 1000", n)
	}
	if !strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("no panic: %s", said.String())
	}
	s.Since = time.Now().Add(-time.Hour)
	server.Print("http: again")
	if !strings.Contains(said.String(), "number=990") {
		t.Error("not said how many were left out")
	}
}
