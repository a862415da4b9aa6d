package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// reading is a gate with one capsule, "reading", of the tools with "get" in their
// names. Everyone holds it, and may do everything on the main endpoint.
type reading struct{}

func (r reading) Part() gate.Part { return gate.Part{Name: "capsule", Check: r.Check} }

func (reading) Holds(_ *gate.Identity, name string) bool { return name == "reading" }

func (reading) Finds(string) bool { return false }

func (reading) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	if r.Capsule == "" || r.Capsule == "reading" && strings.Contains(r.Exposed, "get") {
		return gate.Decision{Effect: gate.Allow}, nil
	}
	return gate.Decision{Reason: "not in it"}, nil
}

// The endpoint of a capsule lists and calls what is in it. Anything else is unknown
// there. A capsule that the caller does not hold has no endpoint.
func TestCapsuleEndpoint(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("get"), tool("put"))
	other := newScript(t, "o", mcp.Legacy, tool("put"))
	for _, s := range []*script{b, other} {
		s.mu.Lock()
		l := *s.listing
		l.Instructions = "use " + s.Name()
		s.listing = &l
		s.mu.Unlock()
	}
	r := newRig(t, mounted(b, other), func(_ *Options, c *Config) { c.Chain, c.Capsules = gate.NewChain(reading{}), reading{} })
	post := func(path, method, params string) *recorder {
		req := modernRequest(modernBody("1", method, params, ""))
		req.URL.Path = path
		return r.do(req)
	}
	if w := post("/mcp/c/reading", "tools/list", ""); !strings.Contains(w.text(), `"name":"s__get"`) || strings.Contains(w.text(), "__put") {
		t.Errorf("the list: %s", w.text())
	}
	if w := post("/mcp/c/reading", "tools/call", `"name":"s__get"`); !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("a call: %s", w.text())
	}
	hidden := post("/mcp/c/reading", "tools/call", `"name":"s__put"`).text()
	unknown := post("/mcp/c/reading", "tools/call", `"name":"s__pit"`).text()
	if strings.Replace(hidden, "s__put", "s__pit", 1) != unknown {
		t.Errorf("hidden %s\nunknown %s", hidden, unknown)
	}
	if w := post("/mcp/c/reading", "server/discover", ""); !strings.Contains(w.text(), "use s") || strings.Contains(w.text(), "use o") {
		t.Errorf("a discovery tells of what is not in the capsule: %s", w.text())
	}
	nothing := post("/mcp/c/writing", "tools/list", "")
	nowhere := post("/nothing", "tools/list", "")
	if nothing.code() != http.StatusNotFound || nothing.text() != nowhere.text() {
		t.Errorf("a capsule that is not held: status %d, %s; an unknown path: %s", nothing.code(), nothing.text(), nowhere.text())
	}
	if w := post("/mcp/c/", "tools/list", ""); w.code() != http.StatusNotFound {
		t.Errorf("no capsule: status %d", w.code())
	}
	if w := post("/mcp", "tools/list", ""); !strings.Contains(w.text(), "o__put") {
		t.Errorf("the main list: %s", w.text())
	}
}

// checker refuses every call of a tool with an argument x.
type checker struct{ seen []string }

func (c *checker) CheckArguments(_ context.Context, call PendingCall) ([]gate.Demand, error) {
	c.seen = append(c.seen, string(call.Args)+" "+string(call.Schema))
	if mcp.Lookup(call.Args, "x") != nil {
		return nil, refusal.BadArguments("x is not wanted")
	}
	return nil, nil
}

// Arguments are checked as the server will get them, against its own schema, before
// anything is charged.
func TestArgumentsAreChecked(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, `tool {"name":"t","inputSchema":{"type":"object","properties":{"f":{}}}}`)
	c := &checker{}
	r := newRig(t, mounted(b), func(_ *Options, config *Config) {
		config.Arguments = c
		config.Mounts[0].Tools = map[string]ToolShape{"t": {Args: map[string]ArgumentShape{"f": {Fixed: []byte("1")}}}}
	})
	if w := r.modern("1", "tools/call", `"name":"s__t","arguments":{"a":2}`); !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("a call: %s", w.text())
	}
	w := r.modern("2", "tools/call", `"name":"s__t","arguments":{"x":2}`)
	if !strings.Contains(w.text(), `"isError":true`) || !strings.Contains(w.text(), `x is not wanted`) || !strings.Contains(w.text(), `"kind":"invalid_arguments"`) {
		t.Errorf("bad arguments: %s", w.text())
	}
	want := `{"f":1,"a":2} {"type":"object","properties":{"f":{}}}`
	if len(c.seen) != 2 || c.seen[0] != want {
		t.Errorf("checked %q, want %s", c.seen, want)
	}
	if n := len(b.seen("tools/call")); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
}
