package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
)

// A literal path matches itself alone, whatever characters it has.
func TestLiteral(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/srv/plain/f", "/srv/$HOME/f", "/srv/a$b/f", "/srv/${x}/f", "/srv/%PATH%/f", "/srv/~ann/f", "/srv/a*b?c[d]/f", "/srv/a [x]/f",
	} {
		r, err := governance.New([]governance.Rule{{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{governance.Literal(path)}}}}, governance.Options{Home: "/home/ann"})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for argument, want := range map[string]governance.Outcome{path: governance.Deny, "/srv/other/f": governance.Pass} {
			raw, err := json.Marshal(map[string]string{"path": argument})
			if err != nil {
				t.Fatal(err)
			}
			v := r.Judge(governance.Call{Name: "x", Kind: mcp.Tool, Mode: governance.Normal, Arguments: schema.ReadArguments(raw)})
			if v.Outcome != want {
				t.Errorf("forbidden %s, argument %s: %s (%s), want %s", path, argument, v.Outcome, v.Reason, want)
			}
		}
	}
}
