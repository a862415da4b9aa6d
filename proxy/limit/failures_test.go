package limit

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// The TLS handshake has verified a client certificate already.
func TestVerifiedCertificateIsKnown(t *testing.T) {
	s := NewFailures(nil)
	r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
	if s.knows(r) {
		t.Error("somebody without anything is known")
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	if s.knows(r) {
		t.Error("a certificate that nobody verified is known")
	}
	r.TLS.VerifiedChains = [][]*x509.Certificate{{{}}}
	if !s.knows(r) {
		t.Error("a verified certificate is not known")
	}
}

// Known credentials are bounded, and forgotten after a while.
func TestKnownCredentialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewFailures(nil)
		with := func(i int) *http.Request {
			r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", i))
			return r
		}
		for i := range 3 * maxKnown {
			s.remember(with(i))
			if len(s.known)+len(s.earlier) > 2*maxKnown {
				t.Fatalf("%d are known", len(s.known)+len(s.earlier))
			}
		}
		if last := with(3*maxKnown - 1); !s.knows(last) {
			t.Error("the last one is not known")
		}
		if s.knows(with(0)) {
			t.Error("the first one is known still")
		}
		time.Sleep(knownTime)
		s.remember(with(1))
		time.Sleep(knownTime)
		s.remember(with(2))
		if s.knows(with(3*maxKnown - 1)) {
			t.Error("one that was not used for so long is known still")
		}
	})
}
