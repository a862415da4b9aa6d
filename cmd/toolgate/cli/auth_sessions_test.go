//go:build !windows

package cli

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// rs17: sessions are bound to the principal on every binding. The others are
// the same subject of another tenant, of another issuer, and somebody else.
func rs17(t *testing.T, p *protected) {
	alice := p.as(p.token(t))
	named := alice.session(t)
	file, wait := p.path("rs17-began"), p.path("rs17-end")
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__slow","arguments":{"file":%q,"wait":%q},"_meta":{"progressToken":1}}}`, file, wait)
	old := p.as(p.token(t, "aud", public+"/sse"))
	sse := old.openSSE(t)
	others := map[string]struct{ main, old visitor }{
		"another subject": {p.as(p.token(t, "sub", "bob")), p.as(p.token(t, "sub", "bob", "aud", public+"/sse"))},
		"another tenant":  {p.as(p.token(t, "org", "globex")), p.as(p.token(t, "org", "globex", "aud", public+"/sse"))},
		"another issuer":  {p.as(p.b.token(t, "b1", public+"/mcp", p.good)), p.as(p.b.token(t, "b1", public+"/sse", p.good))},
		"an API key":      {p.as("key-of-ci"), p.as("key-of-ci")},
		"an opaque token": {p.as(p.opaque("opaque-rs17", p.active())), p.as(p.opaque("opaque-sse", p.active("aud", public+"/sse")))},
	}
	for name, both := range others {
		other := both.main
		for method, body := range map[string]string{http.MethodPost: call, http.MethodGet: "", http.MethodDelete: ""} {
			if got := other.do(t, method, "/mcp", body, named...); got.status != http.StatusNotFound {
				t.Errorf("%s, %s with the session: %+v", name, method, got)
			}
			// Nobody learns that it exists.
			if got := other.do(t, method, "/mcp", body, mcp.HeaderSession, strings.Repeat("0", 48)); got.status != http.StatusNotFound {
				t.Errorf("%s, %s with a session that does not exist: %+v", name, method, got)
			}
		}
		mine := other.session(t)
		if got := other.do(t, http.MethodGet, "/mcp", "", append(named, mcp.HeaderLastEvent, "x")...); got.status != http.StatusNotFound {
			t.Errorf("%s, events of the session: %+v", name, got)
		}
		if got := other.do(t, http.MethodGet, "/mcp", "", append(mine, mcp.HeaderLastEvent, "x")...); got.status != http.StatusBadRequest {
			t.Errorf("%s, events that are not its own: %+v", name, got)
		}
		if got := both.old.do(t, http.MethodPost, sse.path, call); got.status != http.StatusNotFound {
			t.Errorf("%s, a message: %+v", name, got)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a call in another's session reached the server")
	}
	if got := alice.do(t, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":3,"method":"ping"}`, named...); got.status != http.StatusOK {
		t.Errorf("alice's session: %+v", got)
	}
	if got := old.do(t, http.MethodPost, sse.path, `{"jsonrpc":"2.0","id":4,"method":"ping"}`); got.status != http.StatusAccepted {
		t.Errorf("alice's message: %+v", got)
	}
	sse.says(t, `"id":4`)
}

// sseStream is an open stream of the HTTP+SSE transport.
type sseStream struct {
	path  string // where its messages go
	lines *bufio.Reader
}

// openSSE opens a stream and reads where its messages go.
func (v visitor) openSSE(t *testing.T) *sseStream {
	t.Helper()
	resp := v.open(t, http.MethodGet, "/sse", "")
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", resp.StatusCode)
	}
	s := &sseStream{lines: bufio.NewReader(resp.Body)}
	at := s.says(t, public+"/message")
	_, s.path, _ = strings.Cut(strings.TrimSpace(at), public)
	return s
}

// says waits for a line and returns it.
func (s *sseStream) says(t *testing.T, text string) string {
	t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended without %s: %v", text, err)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
}

// TestStreamsEndWithTheirToken: whoever is not let in any more hears nothing
// more, and a call goes on for whoever comes back with a good token.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	p := newProtected(t)
	// A token that the gateway asks about again every second.
	short := func(audience string) func() any {
		return func() any {
			return p.c.claims(public+audience, p.with("active", true, "client_id", "ide", "exp", time.Now().Add(2*time.Second).Unix()))
		}
	}
	patient := p.visitor
	patient.client = &http.Client{Transport: p.client.Transport}
	main, sse := patient.as(p.opaque("short-main", short("/mcp"))), patient.as(p.opaque("short-sse", short("/sse")))

	named := main.session(t)
	get := main.open(t, http.MethodGet, "/mcp", "", named...)
	defer get.Body.Close()
	old := sse.open(t, http.MethodGet, "/sse", "")
	defer old.Body.Close()
	body, headers := modernRequest(mcp.MethodListen, "", `"notifications":{"toolsListChanged":true},`)
	listen := main.open(t, http.MethodPost, "/mcp", body, headers...)
	defer listen.Body.Close()
	began, end := p.path("stream-began"), p.path("stream-end")
	body, headers = modernRequest(mcp.MethodToolsCall, "a__slow", fmt.Sprintf(`"name":"a__slow","arguments":{"file":%q,"wait":%q},`, began, p.path("never")))
	modern := make(chan *response, 1)
	go func() { modern <- main.do(t, http.MethodPost, "/mcp", body, headers...) }() // ends with the token
	testwait.Until(t, patience, "the modern call is at the server", func() bool { _, err := os.Stat(began); return err == nil })
	if err := os.Remove(began); err != nil {
		t.Fatal(err)
	}
	legacyCall := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a__slow","arguments":{"file":%q,"wait":%q}}}`, began, end)
	legacy := make(chan *response, 1)
	go func() { legacy <- main.do(t, http.MethodPost, "/mcp", legacyCall, named...) }() // ends with the token
	testwait.Until(t, patience, "the legacy call is at the server", func() bool { _, err := os.Stat(began); return err == nil })

	for name, resp := range map[string]*http.Response{"GET": get, "SSE": old, "listen": listen} {
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", name, resp.StatusCode)
		}
	}
	p.opaque("short-main", func() any { return map[string]any{"active": false} })
	p.opaque("short-sse", func() any { return map[string]any{"active": false} })
	for name, resp := range map[string]*http.Response{"GET": get, "SSE": old, "listen": listen} {
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("the stream of %s breaks instead of ending: %v", name, err)
		}
	}
	if got := <-modern; got.status != http.StatusUnauthorized && !(got.status == http.StatusOK && !strings.Contains(got.body, `"result"`)) {
		t.Errorf("a call whose token has ended: %+v", got)
	}
	cut := <-legacy
	if strings.Contains(cut.body, `"result"`) {
		t.Errorf("a legacy call whose token has ended: %+v", cut)
	}
	if got := main.do(t, http.MethodPost, "/mcp", legacyCall, named...); got.status != http.StatusUnauthorized {
		t.Errorf("the next request: %+v", got)
	}
	// The same caller with a good token takes up where the other one ended.
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := p.as(p.opaque("long-main", p.active()))
	last := ""
	for line := range strings.Lines(cut.body) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(id)
		}
	}
	if got := again.do(t, http.MethodGet, "/mcp", "", append(named, mcp.HeaderLastEvent, last)...); got.status != http.StatusOK || !strings.Contains(got.body, "waited") {
		t.Errorf("the rest of the call from event %q: %+v", last, got)
	}
	if got := p.as(p.token(t)).do(t, http.MethodGet, "/mcp", "", append(named, mcp.HeaderLastEvent, last)...); got.status != http.StatusNotFound {
		t.Errorf("the rest of the call for the same subject of another issuer: %+v", got)
	}
}

// TestReloadOfIssuers: a removed issuer's callers are out at once, with their
// sessions and streams; everyone else stays.
func TestReloadOfIssuers(t *testing.T) {
	t.Parallel()
	p := newProtected(t)
	patient := p.visitor
	patient.client = &http.Client{Transport: p.client.Transport}
	a, b := patient.as(p.token(t)), patient.as(p.b.token(t, "b1", public+"/mcp", p.good))
	namedA, namedB := a.session(t), b.session(t)
	streamB := b.open(t, http.MethodGet, "/mcp", "", namedB...)
	defer streamB.Body.Close()
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	without := strings.Replace(string(text), p.b.issuer+`"`, `https://nobody.example"`, 1)
	p.writeText(t, without)
	if o := p.run(t, "reload", p.file); o.code != exitOK || !strings.Contains(o.stdout, "setting auth.jwt") {
		t.Fatalf("reload: %+v", o)
	}
	if _, err := io.ReadAll(streamB.Body); err != nil {
		t.Errorf("the stream of a removed issuer: %v", err)
	}
	if got := b.tools(t); got.status != http.StatusUnauthorized {
		t.Errorf("a removed issuer's token, which was verified before: %+v", got)
	}
	ping := `{"jsonrpc":"2.0","id":3,"method":"ping"}`
	if got := a.do(t, http.MethodPost, "/mcp", ping, namedA...); got.status != http.StatusOK {
		t.Errorf("the other issuer's session: %+v", got)
	}
	p.writeText(t, string(text))
	p.ok(t, "reload", p.file)
	if got := b.do(t, http.MethodPost, "/mcp", ping, namedB...); got.status != http.StatusNotFound {
		t.Errorf("a session of an issuer that is back: %+v", got)
	}
	// A reload of the same asks anew about tokens, and keeps the keys of issuers.
	opaque := p.as(p.opaque("revoked", p.active()))
	if got := opaque.tools(t); got.status != http.StatusOK {
		t.Errorf("an opaque token: %+v", got)
	}
	p.opaque("revoked", func() any { return map[string]any{"active": false} })
	p.a.change(func() { p.a.down = true })
	p.ok(t, "reload", p.file)
	if got := opaque.tools(t); got.status != http.StatusUnauthorized {
		t.Errorf("a token that was revoked before a reload: %+v", got)
	}
	if got := p.as(p.token(t)).tools(t); got.status != http.StatusOK {
		t.Errorf("with an issuer that is down at a reload: %+v", got)
	}
	// A running gateway does not cease to ask.
	p.home.write(t, servers{"a": fake("one")}, nil)
	if o := p.run(t, "reload", p.file); o.code != exitConfig || !strings.Contains(o.stderr, "cannot begin or cease to ask who callers are") {
		t.Errorf("reload without authentication: %+v", o)
	}
	if got := p.tools(t); got.status != http.StatusUnauthorized {
		t.Errorf("afterwards: %+v", got)
	}
}

// A local client is let in as long as its token is good, as everybody is.
func TestLocalClientEndsWithItsToken(t *testing.T) {
	t.Parallel()
	p := newProtected(t)
	p.opaque("short", func() any {
		return p.c.claims(public+"/mcp", p.with("active", true, "client_id", "ide", "exp", time.Now().Add(2*time.Second).Unix()))
	})
	p.env["TOOLGATE_API_KEY"] = "short"
	client := p.start(t, "stdio", p.file)
	ask := func(id int) {
		t.Helper()
		if _, err := fmt.Fprintf(client.in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id); err != nil {
			t.Fatal(err)
		}
	}
	ask(1)
	client.says(t, client.out, `"id":1,"result"`)
	p.opaque("short", func() any { return map[string]any{"active": false} })
	if code := client.wait(t); code != exitAuth || !strings.Contains(client.err.String(), "TOOLGATE_API_KEY") {
		t.Errorf("exit code %d: %s", code, client.err)
	}
}
