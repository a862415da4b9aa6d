package proxy

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// argumentsSeen is given the arguments that are checked.
type argumentsSeen func(args []byte)

func (f argumentsSeen) CheckArguments(_ context.Context, p PendingCall) ([]gate.Demand, error) {
	f(p.Request.Args)
	return nil, nil
}

// nullable is a tool with an argument that strict clients leave out for null.
const nullable = `tool {"name":"move","description":"Moves it.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"to":{"anyOf":[{"type":"string"},{"type":"null"}],"title":"To"},"at":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["to"]},"annotations":{"readOnlyHint":true}}`

// strictForm is what a strict client is shown of it.
const strictForm = `{"type":"object","properties":{"to":{"type":"string","description":"Leave it out for null."},"at":{"type":"object","description":"Give exactly one of the properties.","properties":{"string":{"type":"string"},"integer":{"type":"integer"}},"minProperties":1,"maxProperties":1,"additionalProperties":false}}}`

// schemaIn returns the schema of the only tool in the list of an endpoint.
func schemaIn(t *testing.T, list string) string {
	t.Helper()
	tools := mcp.Lookup([]byte(list), "result", "tools")
	for e := range mcp.Elements(tools) {
		return string(mcp.Lookup(e.Of(tools), "inputSchema"))
	}
	t.Fatalf("no tool: %s", list)
	return ""
}

// TestSchemaModes lists a tool at the endpoints of each mode, with each default.
func TestSchemaModes(t *testing.T) {
	verbatim := string(mcp.Lookup([]byte(strings.TrimPrefix(nullable, "tool ")), "inputSchema"))
	compact := strings.NewReplacer(`"$schema":"https://json-schema.org/draft/2020-12/schema",`, "", `,"title":"To"`, "").Replace(verbatim)
	for mode, byDefault := range map[schemas.Mode]string{"": verbatim, schemas.Verbatim: verbatim, schemas.CompactMode: compact, schemas.StrictMode: strictForm} {
		r := newFindRig(t, func(c *Config) { c.Schemas = mode }, newScript(t, "strict", mcp.Legacy, nullable))
		for path, want := range map[string]string{
			"/mcp": byDefault, "/mcp/verbatim": verbatim, "/mcp/compact": compact, "/mcp/strict": strictForm,
			"/mcp/s/strict": byDefault, "/mcp/s/strict/strict": strictForm, "/mcp/s/strict/compact": compact,
		} {
			if got := schemaIn(t, r.post(path, "tools/list", "").text()); got != want {
				t.Errorf("default %q, %s: %s\nwant %s", mode, path, got, want)
			}
		}
		for _, path := range []string{"/mcp/strict/strict", "/mcp/find/strict", "/strict", "/mcp/s/compact", "/mcp/Strict", "/mcp/strict/"} {
			if w := r.post(path, "tools/list", ""); w.code() != http.StatusNotFound {
				t.Errorf("%s: status %d", path, w.code())
			}
		}
	}
}

// TestStrictArguments sends the same call in the form of each endpoint. The server, the
// check of arguments and the audit log always see the server's own form.
func TestStrictArguments(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, nullable)
	var checked [][]byte
	r := newFindRig(t, func(c *Config) {
		c.Arguments = argumentsSeen(func(args []byte) { checked = append(checked, bytes.Clone(args)) })
	}, b)
	for _, tt := range []struct{ path, given, want string }{
		{"/mcp", `{"to":null,"at":5}`, `{"to":null,"at":5}`},
		{"/mcp/compact", `{"to":null,"at":5}`, `{"to":null,"at":5}`},
		{"/mcp/strict", `{"at":{"integer":5}}`, `{"at":5,"to":null}`},
		{"/mcp/strict", `{"to":null,"at":5}`, `{"to":null,"at":5}`},
		{"/mcp/s/s/strict", `{"to":"x","at":{"string":"y"}}`, `{"to":"x","at":"y"}`},
		{"/mcp", `{"at":{"integer":5}}`, `{"at":{"integer":5}}`},
	} {
		for _, find := range []bool{false, true} {
			path, params := tt.path, `"name":"s__move","arguments":`+tt.given
			if find {
				path, params = path+"/find", `"name":"`+findview.CallRead+`","arguments":{"name":"s__move","arguments":`+tt.given+`}`
			}
			checked = nil
			text := r.post(path, "tools/call", params).text()
			calls := b.seen(mcp.MethodToolsCall)
			if len(calls) == 0 || len(checked) != 1 {
				t.Fatalf("%s: %s", path, text)
			}
			if got := mcp.Lookup(calls[len(calls)-1].Params, "arguments"); string(got) != tt.want || string(checked[0]) != tt.want {
				t.Errorf("%s %s: the server got %s, the check %s; want %s", path, tt.given, got, checked[0], tt.want)
			}
			all := r.ledger.all()
			if want := fmt.Sprintf("%x", mcp.Hash([]byte(tt.want))); all[len(all)-1].ArgsHash != want {
				t.Errorf("%s %s: the audit entry is of other arguments: %+v", path, tt.given, all[len(all)-1])
			}
		}
	}
}

// TestStrictDescription describes a tool in the find view of a strict endpoint.
func TestStrictDescription(t *testing.T) {
	r := newFindRig(t, nil, newScript(t, "s", mcp.Legacy, nullable))
	got := r.post("/mcp/strict/find", "tools/call", `"name":"`+findview.DescribeTools+`","arguments":{"names":["s__move"]}`).text()
	if !strings.Contains(string(structured(t, got)), strictForm) {
		t.Errorf("%s", got)
	}
}

// TestStrictAfterSignIn has a client call a tool by its strict form that is listed only once
// its user has signed in. The same call continues then.
func TestStrictAfterSignIn(t *testing.T) {
	const signIn = `{"name":"sign_in","description":"Signs in.","inputSchema":{"type":"object"}}`
	b := newScript(t, "s", mcp.Legacy, "tool "+signIn)
	var signedIn atomic.Bool
	r := newFindRig(t, func(c *Config) {
		m := &c.Mounts[0]
		m.SignInTool = []byte(signIn)
		m.SignIn = func(*gate.Identity, error) string { return "https://gw.example/join" }
		m.Listed = func(*gate.Identity, mcp.Kind, string) bool { return signedIn.Load() }
		m.Await = func(context.Context, *gate.Identity, mcp.Kind, string) error {
			if signedIn.Load() {
				return nil
			}
			return &mcp.Failure{Kind: mcp.FailLogin, Server: "s", Reason: "Sign in."}
		}
	}, b)
	call := func(path, members string) string {
		body := strings.Replace(modernBody("1", "tools/call", members, ""), `{"form":{}}`, `{"url":{}}`, 1)
		req := modernRequest(body)
		req.URL.Path = path
		return r.do(req).text()
	}
	for _, path := range []string{"/mcp/strict", "/mcp"} {
		signedIn.Store(false)
		given := map[string]string{"/mcp/strict": `{"at":{"integer":5}}`, "/mcp": `{"to":null,"at":5}`}[path]
		asked := call(path, `"name":"s__move","arguments":`+given)
		state := mcp.Lookup([]byte(asked), "result", "requestState")
		if state == nil {
			t.Fatalf("%s: %s", path, asked)
		}
		b.offer(t, mcp.Legacy, everything, "tool "+signIn, nullable)
		r.publisher.rebuild(t.Context())
		signedIn.Store(true)
		again := `"inputResponses":{"` + SignInInput + `":{"action":"accept"}},"requestState":` + string(state)
		if got := call(path, `"name":"s__move","arguments":{"at":{"integer":6}},`+again); !strings.Contains(got, "Invalid requestState") {
			t.Errorf("%s: with other arguments: %s", path, got)
		}
		got := call(path, `"name":"s__move","arguments":`+given+`,`+again)
		calls := b.seen(mcp.MethodToolsCall)
		if len(calls) == 0 || !strings.Contains(got, `"result"`) {
			t.Fatalf("%s: %s", path, got)
		}
		if args := mcp.Lookup(calls[len(calls)-1].Params, "arguments"); string(mcp.Lookup(args, "at")) != "5" {
			t.Errorf("%s: the server got %s", path, args)
		}
		b.offer(t, mcp.Legacy, everything, "tool "+signIn)
		r.publisher.rebuild(t.Context())
	}
}
