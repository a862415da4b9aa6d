package spicedb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A type that the schema does not define relates nobody to anything: calls, short lists
// and lists that are looked up are denied, and nothing is wrong with the server.
func TestUndefinedType(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*spicedb.Options){
		"watched": func(*spicedb.Options) {},
		"strict":  func(o *spicedb.Options) { o.Strict = true },
	} {
		for _, kind := range []mcp.Kind{mcp.Prompt, mcp.Resource, mcp.Template} {
			t.Run(name+"/"+kind.String(), func(t *testing.T) {
				t.Parallel()
				s := spicedbtest.NewServer()
				s.SetType("prompt", nil)
				s.SetType("resource", nil)
				s.Write(t, grant)
				p := start(t, s, options)
				all := make([]gate.Request, 250)
				for i := range all {
					all[i] = spicedbtest.Tool(fmt.Sprintf("%s%d", kind, i), "alice")
					all[i].Kind, all[i].Server = kind, "gh"
				}
				for _, n := range []int{1, 3, len(all)} {
					list := append([]gate.Request{search}, all[:n]...)
					decisions, err := p.CheckAll(t.Context(), list)
					if err != nil || decisions[0].Effect != gate.Allow {
						t.Fatalf("a list of %d: the tool %+v, error %v", n, decisions[0], err)
					}
					for _, d := range decisions[1:] {
						if d.Effect != gate.Deny || d.Err != nil || !strings.Contains(d.Reason, "the schema defines no type") {
							t.Fatalf("a list of %d: %+v", n, d)
						}
					}
				}
				e, err := p.Explain(t.Context(), &all[0])
				if err != nil || e.Decision.Effect != gate.Deny || e.Change == nil || !strings.HasPrefix(e.Change.Text, "add to the schema a definition ") {
					t.Errorf("explained: %+v, %v", e, err)
				}
				if st := p.Status(); !st.OK {
					t.Errorf("the server is said to be wrong: %+v", st)
				}
			})
		}
	}
}

// A type that is defined later is asked about, and one whose permission is absent is a
// mistake in the schema.
func TestTypeThatIsDefinedLater(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.SetType("prompt", nil)
	p := start(t, s, nil)
	ask := spicedbtest.Tool("ask", "alice")
	ask.Kind = mcp.Prompt
	if d, err := p.Check(t.Context(), &ask); err != nil || d.Effect != gate.Deny {
		t.Fatalf("%+v, %v", d, err)
	}
	s.SetType("prompt", []string{"owner"})
	testwait.Until(t, spicedbtest.Soon, "the mistake", func() bool {
		d, err := p.Check(t.Context(), &ask)
		return err != nil && d.Reason == spicedb.ReasonMisconfigured
	})
	s.SetType("prompt", []string{"server", "owner", "executor", "banned", "execute"})
	s.Write(t, "prompt:ask#executor@user:alice")
	testwait.Until(t, spicedbtest.Soon, "the permission", func() bool {
		d, err := p.Check(t.Context(), &ask)
		return err == nil && d.Effect == gate.Allow
	})
}
