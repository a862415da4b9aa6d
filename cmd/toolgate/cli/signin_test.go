//go:build !windows

package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// browser is a person's browser.
type browser struct{ http.Client }

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{http.Client{Jar: jar, Transport: newClient(t).Transport}}
}

// page reads an answer.
func page(t *testing.T, resp *http.Response, err error) (status int, text string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (b *browser) open(t *testing.T, address string) (status int, text string) {
	t.Helper()
	resp, err := b.Get(address)
	return page(t, resp, err)
}

var formField = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

// submit sends the form of a page.
func (b *browser) submit(t *testing.T, address, text string, fields url.Values) (status int, answer string) {
	t.Helper()
	m := formField.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the page has no form:\n%s", text)
	}
	if fields == nil {
		fields = url.Values{}
	}
	fields.Set("form", m[1])
	resp, err := b.PostForm(address, fields)
	return page(t, resp, err)
}

// signIn opens a link and goes all the way.
func (b *browser) signIn(t *testing.T, address string) {
	t.Helper()
	status, text := b.open(t, address)
	if status != http.StatusOK || !strings.Contains(text, "Signs in at") {
		t.Fatalf("the link answers %d:\n%s", status, text)
	}
	if status, text = b.submit(t, address, text, nil); status != http.StatusOK || !strings.Contains(text, "Signed in to") {
		t.Fatalf("the login ends with %d:\n%s", status, text)
	}
}

var linkIn = regexp.MustCompile(`http://127\.0\.0\.1:\d+/oauth/login/[A-Za-z0-9._-]+`)

// link calls a tool and returns the address that the answer has for a person.
func (h *home) link(t *testing.T, tool string) string {
	t.Helper()
	o := h.run(t, "call", tool, "--file", h.file)
	if o.code != exitAuth {
		t.Fatalf("the call ends with %d, want %d:\n%s%s", o.code, exitAuth, o.stdout, o.stderr)
	}
	address := linkIn.FindString(o.stdout + o.stderr)
	if address == "" {
		t.Fatalf("no link in:\n%s%s", o.stdout, o.stderr)
	}
	if strings.Contains(o.stdout+o.stderr, oauthtest.Evil) {
		t.Error("the server's challenge reaches the client")
	}
	return address
}

// works waits until a call is answered for a user.
func (h *home) works(t *testing.T, user string) {
	t.Helper()
	testwait.Until(t, patience, "a call for "+user, func() bool {
		o := h.run(t, "call", "web__echo", "--file", h.file, "text=hello")
		return o.code == exitOK && strings.Contains(o.stdout, user+":hello")
	})
}

// TestSignIn has somebody sign in who did no more than write a URL into a file:
// sent by a tool, once, and for all restarts to come.
func TestSignIn(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	a.Rotate = true
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}}, nil)
	p, _ := h.up(t)
	testwait.Until(t, patience, "the tool that signs in", func() bool {
		return strings.Contains(h.ok(t, "tools", h.file), "web__toolgate_sign_in")
	})
	if got := h.servers(t)["web"]; got.State != "needs_login" {
		t.Errorf("the state is %q", got.State)
	}
	address := h.link(t, "web__toolgate_sign_in")
	newBrowser(t).signIn(t, address)
	h.works(t, "somebody")
	if got := h.ok(t, "logins", "--file", h.file); !strings.Contains(got, "signed_in") {
		t.Errorf("logins: %s", got)
	}
	p.stop(t, syscall.SIGTERM)

	p, _ = h.up(t)
	h.works(t, "somebody")
	a.Revoke(false) // of the tokens alone: it is renewed
	h.works(t, "somebody")
	if n := len(a.Requests("/authorize")); n != 1 {
		t.Errorf("somebody had to sign in %d times", n)
	}
	a.Revoke(true)
	if newBrowser(t).signIn(t, h.link(t, "web__echo")); !t.Failed() {
		h.works(t, "somebody")
	}
	if got := h.ok(t, "logout", "web", "--file", h.file); !strings.Contains(got, "signed out") {
		t.Errorf("logout: %s", got)
	}
	h.link(t, "web__echo")
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), oauthtest.Evil))
	for _, r := range append(a.Requests("/token"), a.Requests("/authorize")...) {
		if r.Form.Get("resource") != s.URL {
			t.Errorf("asked without the resource: %v", r.Form)
		}
	}
	for _, r := range a.Requests("/register") {
		if !strings.Contains(r.Body, `"application_type":"native"`) || !strings.Contains(r.Body, "refresh_token") {
			t.Errorf("registered with %s", r.Body)
		}
	}
}

// TestLoginOnTheCommandLine has somebody sign in with a browser of the same machine,
// and by pasting what a browser of another one was sent to.
func TestLoginOnTheCommandLine(t *testing.T) {
	for name, paste := range map[string]bool{"browser": false, "paste": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, a := newHome(t), oauthtest.New(t)
			s := oauthtest.NewServer(t, a)
			h.write(t, servers{"web": {"url": s.URL}}, nil)
			h.up(t)
			p := h.start(t, "login", "web", "--no-browser", "--file", h.file)
			address := p.says(t, p.out, `open  (http://\S+)`)[1]
			if !paste {
				if status, text := newBrowser(t).open(t, address); status != http.StatusOK {
					t.Errorf("the browser ends with %d: %s", status, text)
				}
			} else {
				b := newBrowser(t)
				b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				resp, err := b.Get(address)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				fmt.Fprintln(p.in, resp.Header.Get("Location"))
			}
			if code := p.wait(t); code != exitOK {
				t.Errorf("login ends with %d: %s", code, p.err)
			}
			h.works(t, "somebody")
		})
	}
}

// TestSignInByQuestion has clients of both eras sent to sign in by a question of
// their own revision, and goes on with the call of the modern one.
func TestSignInByQuestion(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}}, nil)
	_, at := h.up(t)
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
	client := newClient(t)
	modern := func(more string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web__toolgate_sign_in","arguments":{},` + more + `"_meta":{
			"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},
			"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"},
			"Mcp-Method": {"tools/call"}, "Mcp-Name": {"web__toolgate_sign_in"},
		}
		resp, err := client.Do(r)
		status, text := page(t, resp, err)
		if status != http.StatusOK || strings.Contains(text, oauthtest.Evil) || resp.Header.Get("WWW-Authenticate") != "" {
			t.Fatalf("answered %d: %s", status, text)
		}
		return text
	}
	asks := modern("")
	address, _ := mcp.LookupString([]byte(asks), "result", "inputRequests", "sign_in", "params", "url")
	state := mcp.Lookup([]byte(asks), "result", "requestState")
	if mode, _ := mcp.LookupString([]byte(asks), "result", "inputRequests", "sign_in", "params", "mode"); mode != "url" || address == "" || state == nil {
		t.Fatalf("asked by %s", asks)
	}
	newBrowser(t).signIn(t, address)
	testwait.Until(t, patience, "the tools", func() bool { return strings.Contains(h.ok(t, "tools", h.file), "web__whoami") })
	if got := modern(`"inputResponses":{"sign_in":{"action":"accept"}},"requestState":` + string(state) + `,`); strings.Contains(got, "input_required") {
		t.Errorf("the retry is answered by %s", got)
	}
	h.ok(t, "logout", "web", "--file", h.file)
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })

	open := func(session, body string) (string, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header["Mcp-Session-Id"], r.Header["Mcp-Protocol-Version"] = []string{session}, []string{"2025-11-25"}
		}
		resp, err := client.Do(r)
		_, text := page(t, resp, err)
		return resp.Header.Get("Mcp-Session-Id"), text
	}
	session, _ := open("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"t","version":"1"}}}`)
	_, text := open(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"web__whoami","arguments":{}}}`)
	if !strings.Contains(text, "-32042") || linkIn.FindString(text) == "" || !strings.Contains(text, "elicitationId") {
		t.Errorf("a client of 2025-11-25 is answered by %s", text)
	}
}
