package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// behindLogin is a backend that lists nothing but the tool by which one signs in
// until somebody has.
type behindLogin struct {
	*script
	*rig
	signed atomic.Bool
	waits  atomic.Int64
}

func newBehindLogin(t *testing.T, changes ...func(*Options, *Config)) *behindLogin {
	t.Helper()
	l := &behindLogin{script: newScript(t, "s", mcp.Legacy, tool("join"))}
	m := mounted(l.script)
	m[0].SignInTool = []byte(`{"name":"join","inputSchema":{"type":"object"}}`)
	m[0].SignIn = func(*gate.Identity, error) string { return "https://gw.example/join" }
	m[0].Await = func(_ context.Context, _ *gate.Identity, kind mcp.Kind, original string) error {
		l.waits.Add(1)
		listing, _ := l.script.Listing()
		if listing.Find(kind, original) != nil {
			return nil
		}
		if !l.signed.Load() {
			return &mcp.Failure{Kind: mcp.FailLogin, Server: "s", Reason: "Sign in."}
		}
		l.offer(t, mcp.Legacy, everything, tool("later"))
		l.rig.Changed("s")
		return nil
	}
	l.rig = newRig(t, m, changes...).run()
	return l
}

// call makes a call as a client that can send its user to a URL.
func (l *behindLogin) call(name, more string) string {
	l.t.Helper()
	body := modernBody("1", "tools/call", `"name":"`+name+`","arguments":{"a":1}`+more, "")
	return l.do(modernRequest(strings.Replace(body, `{"form":{}}`, `{"url":{}}`, 1))).text()
}

// TestUnlistedCallsLeadToTheLogin has a client call what nobody is listed yet: it is
// sent to sign in, as often as it comes back without, and goes on with the call when
// it has.
func TestUnlistedCallsLeadToTheLogin(t *testing.T) {
	l := newBehindLogin(t)
	again := func(asked, action string) string {
		t.Helper()
		state := mcp.Lookup([]byte(asked), "result", "requestState")
		url, _ := mcp.LookupString([]byte(asked), "result", "inputRequests", "sign_in", "params", "url")
		if state == nil || url != "https://gw.example/join" {
			t.Fatalf("asked by %s", asked)
		}
		return `,"requestState":` + string(state) + `,"inputResponses":{"sign_in":{"action":"` + action + `"}}`
	}
	asked := l.call("s__later", "")
	if got := l.call("s__other", again(asked, "accept")); !strings.Contains(got, "Invalid requestState") {
		t.Errorf("the state of one call is taken for another: %s", got)
	}
	if got := l.call("s__later", again(asked, "decline")); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "needs_login") {
		t.Errorf("who does not want to sign in is answered %s", got)
	}
	if got := l.call("s__later", again(asked, "accept")); !strings.Contains(got, "Invalid requestState") {
		t.Errorf("a state is good twice: %s", got)
	}
	asked = l.call("s__later", again(l.call("s__later", ""), "accept")) // who has not signed in
	l.signed.Store(true)
	if got := l.call("s__later", again(asked, "accept")); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("after the login the call is answered %s", got)
	}
	if n := len(l.seen("tools/call")); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
	if got := l.call("s__nothing", ""); !strings.Contains(got, "Unknown tool: s__nothing") {
		t.Errorf("what there is not is answered %s", got)
	}
	if open, _ := l.awaited(); open != 0 {
		t.Errorf("%d calls are left open", open)
	}
}

// Whoever may not view the tool by which one signs in, or is elsewhere, is told
// nothing of the server; and none of the other servers is waited for.
func TestUnlistedIsHiddenFromOtherCallers(t *testing.T) {
	l := newBehindLogin(t, hide("join"))
	if got, none := l.call("s__later", ""), l.call("t__later", ""); strings.ReplaceAll(got, "s__", "t__") != none {
		t.Errorf("answered %s, and for what is nowhere %s", got, none)
	}
	if n := l.waits.Load(); n != 1 {
		t.Errorf("%d waits, want that of the server's own name", n)
	}
	w := l.do(httpRequest(http.MethodPost, "/mcp/t", modernBody("1", "tools/call", `"name":"s__later"`, ""),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "s__later"))
	if n := l.waits.Load(); n != 1 {
		t.Errorf("a call out of scope waits; it is answered %s", w.text())
	}
}

// What the operator includes leaves the tool by which one signs in, and no tool of
// the server's own under its name; what they exclude does not.
func TestTheLoginIsIncluded(t *testing.T) {
	own := `tool {"name":"join","description":"the server's own","inputSchema":{"type":"object"}}`
	for name, tt := range map[string]struct {
		listed           string
		include, exclude []string
		want             bool
	}{
		"nothing said":        {tool("join"), nil, nil, true},
		"others included":     {tool("join"), []string{"later"}, nil, true},
		"excluded":            {tool("join"), nil, []string{"join"}, false},
		"own, not included":   {own, []string{"later"}, nil, false},
		"own, nothing said":   {own, nil, nil, true},
		"included, no others": {tool("join"), []string{"join"}, nil, true},
	} {
		m := mounted(newScript(t, "s", mcp.Legacy, tt.listed))
		m[0].SignInTool = []byte(`{"name":"join","inputSchema":{"type":"object"}}`)
		m[0].Include, m[0].Exclude = tt.include, tt.exclude
		if got := newRig(t, m).modern("1", "tools/list", "").text(); strings.Contains(got, "s__join") != tt.want {
			t.Errorf("%s: listed %s", name, got)
		}
	}
}

// A call ends with its client while it waits.
func TestUnlistedWaitsEnd(t *testing.T) {
	l := newBehindLogin(t)
	m := mounted(l.script)
	began := make(chan struct{})
	m[0].SignInTool = []byte(`{"name":"join","inputSchema":{"type":"object"}}`)
	m[0].Await = func(ctx context.Context, _ *gate.Identity, _ mcp.Kind, _ string) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l.Apply(Config{Mounts: m, Chain: gate.NewChain(gate.Open{})})
	w, leave := l.begin(modernRequest(modernBody("1", "tools/call", `"name":"s__later"`, "")))
	<-began
	leave()
	<-w.done
	if got := l.ledger.outcomes(); len(got) != 1 || len(l.seen("")) != 0 {
		t.Errorf("outcomes %v", got)
	}
}
