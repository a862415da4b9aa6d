package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/proxy/replica"
)

// What arrives is what the client has sent, without what belongs to its connection and
// without what it said in the name of a gateway.
func TestPassed(t *testing.T) {
	keys := keyring(t, "a")
	var got *http.Request
	var body []byte
	owner := serving(t, newMemory(), keys, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("X-Own", "1")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "answer")
	}))
	other := member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(owner, other)
	r := request(http.MethodPost, "/mcp/s/a%2Fb?x=1", "Authorization", "Bearer k", "Connection", "close, X-Forwarded-For", "Te", "trailers", "Idempotency-Key", "7",
		headerRemote, "203.0.113.1:1", headerSecure, "1", headerShown, "AAAA", "X-Forwarded-For", "198.51.100.4")
	r.Host = "gate.example"
	w, err := pass(t, other, owner.Self(), r, `{"a":1}`)
	if err != nil || w.Code != http.StatusAccepted || w.Body.String() != "answer" || w.Header().Get("X-Own") != "1" {
		t.Fatalf("%v, %d %s", err, w.Code, w.Body)
	}
	if got.Host != "gate.example" || got.URL.RequestURI() != "/mcp/s/a%2Fb?x=1" || string(body) != `{"a":1}` || got.RemoteAddr != "192.0.2.7:1234" || got.TLS != nil {
		t.Errorf("%s %s %s from %s, TLS %v", got.Host, got.URL.RequestURI(), body, got.RemoteAddr, got.TLS)
	}
	if !replica.Forwarded(got.Context()) {
		t.Error("it could be passed on again")
	}
	if got.Header.Get("Authorization") != "Bearer k" || got.Header.Get("X-Forwarded-For") != "198.51.100.4" {
		t.Errorf("%v", got.Header)
	}
	for _, name := range []string{"User-Agent", "Te", "Idempotency-Key", headerWire, headerRemote, headerSecure, headerShown, "Connection"} {
		if got.Header.Get(name) != "" {
			t.Errorf("%s: %q arrives", name, got.Header.Get(name))
		}
	}
}

// Only members with the same keys ask and answer, each under its own name.
func TestAuthority(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	owner := serving(t, newMemory(), keyring(t, "b", "a"), h)
	third := serving(t, newMemory(), keyring(t, "b", "a"), h)
	for _, tt := range []struct {
		name string
		keys []string
		ok   bool
	}{
		{"the same keys", []string{"b", "a"}, true},
		{"the new key alone", []string{"b"}, true},
		{"both, the other way round", []string{"a", "b"}, true},
		{"another key", []string{"c"}, false},
		{"another key before", []string{"c", "b", "a"}, false}, // signs with it
	} {
		other := member(t, newMemory(), keyring(t, tt.keys...), "127.0.0.1:1")
		know(owner, other)
		_, err := pass(t, other, owner.Self(), request(http.MethodPost, "/mcp"), "{}")
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		lost, _ := errors.AsType[*replica.LostError](err)
		if !tt.ok && lost == nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		other.close()
	}
	// A member in the place of another.
	other := member(t, newMemory(), keyring(t, "b", "a"), "127.0.0.1:1")
	t.Cleanup(other.close)
	wrong := third.self
	wrong.ID = owner.Self()
	other.members.Store(&[]Member{other.self, wrong})
	if _, err := pass(t, other, owner.Self(), request(http.MethodPost, "/mcp"), "{}"); err == nil {
		t.Error("a member answers in the place of another")
	}
	// Somebody without a certificate.
	anyone := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // no check is what is tried
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+owner.self.Address+"/mcp", http.NoBody)
	if resp, err := anyone.Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("somebody without a certificate gets %s", resp.Status)
	}
}

// The listener serves MCP alone, and one version of the link.
func TestHandler(t *testing.T) {
	served := 0
	c := member(t, newMemory(), keyring(t, "a"), "127.0.0.1:1")
	h := c.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	cert, err := c.authority.certificate()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path   string
		change func(r *http.Request)
		status int
	}{
		{"/mcp", func(*http.Request) {}, http.StatusOK},
		{"/mcp/s/x/find", func(*http.Request) {}, http.StatusOK},
		{"/message", func(*http.Request) {}, http.StatusOK},
		{"/", func(*http.Request) {}, http.StatusNotFound},
		{"/sse", func(*http.Request) {}, http.StatusNotFound},
		{"/livez", func(*http.Request) {}, http.StatusNotFound},
		{"/mcpx", func(*http.Request) {}, http.StatusNotFound},
		{"/mcp", func(r *http.Request) { r.TLS = nil }, http.StatusForbidden},
		{"/mcp", func(r *http.Request) { r.Header.Set(headerWire, "2") }, http.StatusMisdirectedRequest},
		{"/mcp", func(r *http.Request) { r.Header.Del(headerWire) }, http.StatusMisdirectedRequest},
		{"/mcp", func(r *http.Request) { r.Header.Del(headerRemote) }, http.StatusMisdirectedRequest},
		{"/mcp", func(r *http.Request) { r.Header.Set(headerShown, "AAAA") }, http.StatusMisdirectedRequest},
	} {
		before := served
		r := request(http.MethodPost, tt.path, headerWire, fmt.Sprint(Wire), headerRemote, "192.0.2.1:1")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
		tt.change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || (served > before) != (tt.status == http.StatusOK) {
			t.Errorf("%s: %d %s", tt.path, w.Code, w.Body)
		}
	}
}

// An answer comes as it is written. Where its gateway is gone in the middle, a stream of
// events ends with an event that says so, and the client of another answer sees it break.
func TestBrokenAnswer(t *testing.T) {
	keys := keyring(t, "a")
	owner := serving(t, newMemory(), keys, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("events") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	other := member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(owner, other)
	w, err := pass(t, other, owner.Self(), request(http.MethodPost, "/mcp?events"), "{}")
	if err != nil || !strings.HasPrefix(w.Body.String(), "data: one\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":") {
		t.Errorf("%v, %q", err, w.Body)
	}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // the value that net/http looks for
				t.Errorf("it ends as if it were whole: %v", p)
			}
		}()
		_, _ = pass(t, other, owner.Self(), request(http.MethodPost, "/mcp"), "{}")
	}()
}

// Where an answer came whole, nothing follows it; where an event came in part, no other event
// is written into it.
func TestBrokenOff(t *testing.T) {
	keys := keyring(t, "a")
	const answer = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
	owner := serving(t, newMemory(), keys, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		text := answer
		if r.URL.Query().Has("part") {
			text = "data: one\n\n" + answer[:20]
		}
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	other := member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(owner, other)
	w, err := pass(t, other, owner.Self(), request(http.MethodPost, "/mcp"), "{}")
	if err != nil || w.Body.String() != answer {
		t.Errorf("%v, %q", err, w.Body)
	}
	w, err = pass(t, other, owner.Self(), request(http.MethodPost, "/mcp?part"), "{}")
	if err != nil || !strings.HasPrefix(w.Body.String(), "data: one\n\nevent: message\n") {
		t.Errorf("%v, %q", err, w.Body)
	}
}

// A request to a gateway that has frozen ends once its lease has, and other requests may
// fail without a word about the gateway.
func TestFrozen(t *testing.T) {
	keys := keyring(t, "a")
	asked, thawed := make(chan struct{}, 2), make(chan struct{})
	owner := serving(t, newMemory(), keys, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-thawed // also after the other side has hung up: an answer then could still arrive
	}))
	t.Cleanup(func() { close(thawed) })
	other := member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(owner, other)
	failed := make(chan error, 1)
	go func() {
		_, err := pass(t, other, owner.Self(), request(http.MethodPost, "/mcp"), "{}")
		failed <- err
	}()
	<-asked
	other.mu.Lock()
	l := other.links[owner.Self()]
	other.mu.Unlock()
	other.forget([]Member{other.self})
	l.end() // without the time that a member has that leaves
	lost, ok := errors.AsType[*replica.LostError](<-failed)
	if !ok || !lost.MayHaveRun {
		t.Errorf("%+v", lost)
	}
	know(owner, other)
	if _, err := pass(t, other, owner.Self(), request(http.MethodPost, "/mcp", "X-Odd", "a\nb"), "{}"); err == nil {
		t.Error("a header that cannot be sent is sent")
	}
	if other.Home(owner.Self(), "k", false) != owner.Self() {
		t.Error("what is wrong with a request counts against a gateway")
	}
}

// Certificates that another gateway passes on count where they count for clients of this one.
func TestClientCertificates(t *testing.T) {
	keys := keyring(t, "a")
	var got *tls.ConnectionState
	owner := serving(t, newMemory(), keys, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.TLS }))
	other := member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(owner, other)
	shown, err := other.authority.certificate()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	r := request(http.MethodPost, "/mcp")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	w, err := pass(t, other, owner.Self(), r, "{}")
	if err != nil || w.Code != http.StatusMisdirectedRequest || got != nil {
		t.Errorf("%v, %d, %+v", err, w.Code, got)
	}
	owner.o.Verify = func(shown []*x509.Certificate) ([][]*x509.Certificate, error) {
		return [][]*x509.Certificate{append(shown, leaf)}, nil
	}
	w, err = pass(t, other, owner.Self(), r, "{}")
	if err != nil || w.Code != http.StatusOK || got == nil || len(got.PeerCertificates) != 1 || len(got.VerifiedChains) != 1 || len(got.VerifiedChains[0]) != 2 {
		t.Errorf("%v, %d, %+v", err, w.Code, got)
	}
}

// A stream reaches the client event by event, and the gateway that serves it learns that the
// client has left.
func TestStreamThrough(t *testing.T) {
	keys, left := keyring(t, "a"), make(chan struct{})
	next := make(chan string)
	owner := serving(t, newMemory(), keys, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case line := <-next:
				_, _ = io.WriteString(w, line+"\n\n")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				close(left)
				return
			}
		}
	}))
	other := member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(owner, other)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = other.Forward(w, r, owner.Self(), replica.Message{})
	}))
	t.Cleanup(front.Close)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+"/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, line := range []string{"one", "two"} {
		next <- line
		got, err := lines.ReadString('\n')
		if _, bad := lines.ReadString('\n'); err != nil || bad != nil || got != line+"\n" {
			t.Fatalf("%q, %v, %v", got, err, bad)
		}
	}
	leave()
	<-left
}

// A gateway that does not answer has run nothing, and is passed over for a while.
func TestGone(t *testing.T) {
	keys := keyring(t, "a")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	gone, other := member(t, newMemory(), keys, l.Addr().String()), member(t, newMemory(), keys, "127.0.0.1:1")
	t.Cleanup(other.close)
	know(gone, other)
	if !other.Alive(gone.Self()) || other.Home(gone.Self(), "k", false) != gone.Self() {
		t.Fatal("it is there at first")
	}
	_, err = pass(t, other, gone.Self(), request(http.MethodPost, "/mcp"), "{}")
	lost, ok := errors.AsType[*replica.LostError](err)
	if !ok || lost.MayHaveRun {
		t.Errorf("%v", err)
	}
	if !other.Alive(gone.Self()) || other.Home(gone.Self(), "k", false) != other.Self() {
		t.Error("it is still asked for what others can do, or counts as gone before its lease ends")
	}
	if other.Home(gone.Self(), "k", true) != gone.Self() {
		t.Error("another gateway is asked for what only this one can settle")
	}
}

// FuzzArrive holds that nothing that arrives makes a panic, or a request of nobody.
func FuzzArrive(f *testing.F) {
	f.Add("1", "192.0.2.1:1", "1", "AAAA")
	f.Add("2", "", "", "x,y")
	f.Fuzz(func(t *testing.T, wire, remote, secure, shown string) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
		r.Header = http.Header{headerWire: {wire}, headerRemote: {remote}, headerSecure: {secure}, headerShown: {shown}}
		in, err := arrive(r, func([]*x509.Certificate) ([][]*x509.Certificate, error) { return nil, errors.New("nobody counts") })
		if err != nil {
			return
		}
		if in.RemoteAddr == "" || !replica.Forwarded(in.Context()) || wire != fmt.Sprint(Wire) {
			t.Errorf("%+v", in)
		}
		if in.TLS != nil && len(in.TLS.PeerCertificates)+len(in.TLS.VerifiedChains) > 0 {
			t.Error("certificates that nobody has verified")
		}
	})
}
