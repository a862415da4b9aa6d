//go:build !windows

package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// lasts writes the gateway's own certificate, valid until some time, and its key.
func (c *pki) lasts(t *testing.T, h *home, until time.Time) *x509.Certificate {
	t.Helper()
	leaf, cert, key := c.Gateway(t, until)
	h.replace(t, "cert.pem", cert)
	h.replace(t, "key.pem", key)
	return leaf
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
	testwait.Until(t, patience, "the new certificate is shown", func() bool {
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
