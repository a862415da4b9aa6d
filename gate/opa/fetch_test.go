package opa_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/testwait"
)

// bundleServer serves one bundle with an ETag, as a bundle service does.
type bundleServer struct {
	*httptest.Server
	mu      sync.Mutex // guards what follows
	raw     []byte
	etag    string
	status  int
	asked   int
	same    int // answers that were 304
	headers http.Header
}

func newBundleServer(t *testing.T, raw []byte) *bundleServer {
	s := &bundleServer{raw: raw, etag: `"1"`}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		s.headers = r.Header.Clone()
		switch {
		case s.status != 0:
			http.Error(w, "no", s.status)
		case s.etag != "" && r.Header.Get("If-None-Match") == s.etag:
			s.same++
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", s.etag)
			w.Write(s.raw) //nolint:errcheck // the client sees it
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *bundleServer) set(raw []byte, etag string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw, s.etag, s.status = raw, etag, status
}

func (s *bundleServer) counts() (asked, same int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.same
}

func reasonBundle(t *testing.T, reason string) []byte {
	return bundle(t, policy(`decision := {"allow": false, "reason": "`+reason+`"}`))
}

// A URL is polled with the ETag; a new bundle takes effect, one that is
// broken does not and is reported until a good one is there.
func TestBundleURLIsPolled(t *testing.T) {
	t.Parallel()
	s := newBundleServer(t, reasonBundle(t, "one"))
	p := newPhase(t, opa.Options{
		Settings: opa.Settings{Bundle: s.URL + "/bundle.tar.gz"}, Poll: 5 * time.Millisecond, CopyDir: filepath.Join(t.TempDir(), "copies"),
		Header: http.Header{"Authorization": {"Bearer secret"}},
	})
	wantDeny(t, decide(t, p, view("a")), "one")
	running(t, p)
	testwait.Until(t, patience, "an answer that nothing changed", func() bool { _, same := s.counts(); return same > 2 })
	s.set(reasonBundle(t, "two"), `"2"`, 0)
	testwait.Until(t, patience, "the new bundle", func() bool { return decide(t, p, view("a")).Reason == "two" })

	good := reasonBundle(t, "three")
	for name, broken := range map[string][]byte{
		"cut off":      good[:len(good)-20],
		"not a policy": bundle(t, files{"README.md": ""}),
		"syntax":       bundle(t, policy("decision := {")),
		"no decision":  bundle(t, policy("other := true")),
		"http.send":    bundle(t, policy(`decision := http.send({})`)),
	} {
		s.set(broken, `"`+name+`"`, 0)
		testwait.Until(t, patience, "the error of "+name, func() bool { return p.Status().Err != nil })
		first := p.Status().Err
		wantDeny(t, decide(t, p, view("a")), "two")
		asked, _ := s.counts()
		testwait.Until(t, patience, "another look at "+name, func() bool { n, _ := s.counts(); return n > asked+2 })
		if err := p.Status().Err; err == nil || err.Error() != first.Error() {
			t.Errorf("%s: error %v and then %v", name, first, err)
		}
		s.set(reasonBundle(t, "two"), `"2"`, 0) // which is in force: 304
		testwait.Until(t, patience, "the end of the error of "+name, func() bool { return p.Status().Err == nil })
		s.set(broken, `"`+name+`"`, 0)
		testwait.Until(t, patience, "the error of "+name+" again", func() bool { return p.Status().Err != nil })
		s.set(reasonBundle(t, "two"), `"2"`, 0)
		testwait.Until(t, patience, "the end of the error of "+name, func() bool { return p.Status().Err == nil })
	}
	s.set(nil, "", http.StatusInternalServerError)
	testwait.Until(t, patience, "the error of a server that fails", func() bool { return p.Status().Err != nil })
	wantDeny(t, decide(t, p, view("a")), "two")
	s.set(good, "", 0) // a server without tags
	testwait.Until(t, patience, "the last bundle", func() bool { return decide(t, p, view("a")).Reason == "three" && p.Status().Err == nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.headers.Get("Authorization") != "Bearer secret" {
		t.Errorf("headers %v", s.headers)
	}
}

// When the URL is down at the start, the last good copy serves and is
// reported; without one the start is refused.
func TestLastGoodCopy(t *testing.T) {
	t.Parallel()
	s := newBundleServer(t, reasonBundle(t, "one"))
	o := opa.Options{Settings: opa.Settings{Bundle: s.URL}, CopyDir: filepath.Join(t.TempDir(), "copies"), Poll: 5 * time.Millisecond}
	newPhase(t, o)
	copies, err := filepath.Glob(filepath.Join(o.CopyDir, "*"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("copies %v, error %v", copies, err)
	}
	info, err := os.Stat(copies[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}

	s.set(nil, "", http.StatusServiceUnavailable)
	t.Run("serves", func(t *testing.T) {
		p := newPhase(t, o)
		wantDeny(t, decide(t, p, view("a")), "one")
		if st := p.Status(); !st.FromCopy || st.Err == nil || !strings.Contains(st.Err.Error(), "503") {
			t.Errorf("status %+v", st)
		}
		running(t, p)
		s.set(reasonBundle(t, "one"), `"1"`, 0)
		testwait.Until(t, patience, "the same from the URL", func() bool { st := p.Status(); return !st.FromCopy && st.Err == nil })
	})

	s.set(nil, "", http.StatusServiceUnavailable)
	alone := o
	alone.CopyDir = ""
	if _, err := opa.New(t.Context(), alone); err == nil {
		t.Error("it started without a policy")
	}
	if err := os.WriteFile(copies[0], []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := opa.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), copies[0]) {
		t.Errorf("error %v", err)
	}
	other := o
	other.Bundle = s.URL + "/other"
	if _, err := opa.New(t.Context(), other); err == nil || !strings.Contains(err.Error(), "no last good copy") {
		t.Errorf("another URL: error %v", err)
	}
}

// A redirect to another host is not followed: it would be asked for the policy
// with our credential.
func TestBundleRedirects(t *testing.T) {
	t.Parallel()
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(other.Close)
	raw := reasonBundle(t, "one")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/bundle", http.StatusFound)
		case "/bundle":
			w.Write(raw) //nolint:errcheck // the client sees it
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	wantDeny(t, decide(t, newPhase(t, opa.Options{Settings: opa.Settings{Bundle: s.URL + "/here"}}), view("a")), "one")
	for path, want := range map[string]string{"/away": "another host", "/loop": "redirects"} {
		if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Bundle: s.URL + path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	if reached {
		t.Error("the other host was asked")
	}
}

// A bundle may be as large as the limit for what is on the wire.
func TestBundleURLIsBounded(t *testing.T) {
	t.Parallel()
	s := newBundleServer(t, make([]byte, 20<<20+1))
	if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Bundle: s.URL}}); err == nil || !strings.Contains(err.Error(), "larger than 20 MiB") {
		t.Errorf("error %v", err)
	}
}

// Passwords in URLs are not shown.
func TestStatusHidesPassword(t *testing.T) {
	t.Parallel()
	s := newBundleServer(t, reasonBundle(t, "one"))
	with := strings.Replace(s.URL, "http://", "http://user:geheim@", 1)
	p := newPhase(t, opa.Options{Settings: opa.Settings{Bundle: with}})
	if got := p.Status().Source; strings.Contains(got, "geheim") || !strings.Contains(got, "user") {
		t.Errorf("source %q", got)
	}
	s.Close()
	if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Bundle: with}}); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("error %v", err)
	}
}
