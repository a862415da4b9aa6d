package upstream

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A legacy server is told no more about a modern client than the client declared: over
// streamable HTTP always, by a process only when the server is known to ask.
func TestRoute(t *testing.T) {
	const all, some, none = `{"sampling":{},"elicitation":{},"roots":{}}`, `{"elicitation":{"form":{}},"x":{}}`, `{}`
	spec := Spec{Local: "me", Questions: everyQuestion}
	lacks := func(principal, session string, withheld Questions) connKey {
		return connKey{principal: principal, session: session, withheld: withheld}
	}
	tests := []struct {
		name         string
		change       func(*Spec)
		era          mcp.Era
		shared, asks bool
		call         mcp.Call
		want         connKey
		declared     string
	}{
		{"all of it", nil, mcp.Legacy, false, false, mcp.Call{Principal: "me", Exact: true, Capabilities: []byte(all)}, connKey{}, string(everyQuestion.capabilities())},
		{"some of it", nil, mcp.Legacy, false, false, mcp.Call{Principal: "me", Exact: true, Capabilities: []byte(some)}, lacks("", "", Questions{Sampling: true, Roots: true}), `{"elicitation":{"form":{},"url":{}}}`},
		{"none of it", nil, mcp.Legacy, false, false, mcp.Call{Principal: "bob", Exact: true, Capabilities: []byte(none)}, lacks("bob", "", everyQuestion), `{}`},
		{"a legacy client", nil, mcp.Legacy, false, false, mcp.Call{Principal: "me"}, connKey{}, string(everyQuestion.capabilities())},
		{"a modern server", nil, mcp.Modern, false, false, mcp.Call{Principal: "me", Exact: true}, connKey{}, string(everyQuestion.capabilities())},
		{"a process", nil, mcp.Legacy, true, false, mcp.Call{Principal: "me", Exact: true, Capabilities: []byte(none)}, connKey{}, string(everyQuestion.capabilities())},
		{"a process that asks", nil, mcp.Legacy, true, true, mcp.Call{Principal: "me", Exact: true, Capabilities: []byte(none)}, lacks("", "", everyQuestion), `{}`},
		{"a server that may ask nothing", func(s *Spec) { s.Questions = Questions{} }, mcp.Legacy, false, false, mcp.Call{Principal: "me", Exact: true, Capabilities: []byte(none)}, connKey{}, `{}`},
		{"by session", func(s *Spec) { s.Isolation = IsolateSession }, mcp.Legacy, false, false, mcp.Call{Principal: "me", Session: "s", Exact: true, Capabilities: []byte(some)}, lacks("me", "s", Questions{Sampling: true, Roots: true}), `{"elicitation":{"form":{},"url":{}}}`},
		{"shared by several", func(s *Spec) { s.Isolation, s.Local = IsolateShared, "" }, mcp.Legacy, false, false, mcp.Call{Principal: "me", Exact: true, Capabilities: []byte(none)}, connKey{}, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := spec
			if tt.change != nil {
				tt.change(&spec)
			}
			s := New(spec, Options{Logger: quietLog})
			s.behaviour.asks = tt.asks
			tt.call.Kind = mcp.Tool
			key := s.route(&tt.call, &Conn{era: tt.era, shared: tt.shared})
			if key != tt.want {
				t.Errorf("key %+v, want %+v", key, tt.want)
			}
			if got := string(s.declares(key)); got != tt.declared {
				t.Errorf("declares %s, want %s", got, tt.declared)
			}
			tt.call.Kind = mcp.NoKind
			if key := s.route(&tt.call, &Conn{era: tt.era, shared: tt.shared}); key.withheld != (Questions{}) {
				t.Errorf("what is not a call went to %+v", key)
			}
		})
	}
}
