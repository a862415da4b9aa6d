//go:build e2e && unix

package e2e

import (
	"strings"
	"testing"
)

// TestSecondImplementation puts the fixture made with mcp-go behind toolgate,
// over each of its transports and in each era, and runs the script with a client
// of the other implementation. What succeeds directly must succeed through
// toolgate; what this server or client does not do at all fails both times.
func TestSecondImplementation(t *testing.T) {
	built(t, lab.toolgate)
	for _, cell := range secondCells {
		t.Run(cell.era+"/"+cell.transport, func(t *testing.T) {
			t.Parallel()
			base := runGoSDK(t.Context(), cell.direct(t))
			if base.Error != "" {
				t.Fatalf("direct: %s", base.Error)
			}
			g := startGateway(t, object{"second": fixtureServer(t, cell.transport, "both", "-second")},
				object{"servers": object{"second": object{"protocol": cell.era}}}, fixtureTools("second")...)
			through := runGoSDK(t.Context(), target{Transport: "http", Era: cell.era, URL: g.mcp, Label: newLabel("second")})
			if through.Error != "" {
				t.Fatalf("through toolgate: %s", through.Error)
			}
			reaches(t, base, through)
		})
	}
}

// TestSecondImplementationDirect is the baseline of the test above: the script
// runs to its end, and what does not depend on the transport works.
func TestSecondImplementationDirect(t *testing.T) {
	for _, cell := range secondCells {
		t.Run(cell.era+"/"+cell.transport, func(t *testing.T) {
			t.Parallel()
			r := runGoSDK(t.Context(), cell.direct(t))
			if r.Error != "" {
				t.Fatal(r.Error)
			}
			results.add(t.Name(), r)
			for _, step := range []string{"list", "read_resource", "get_prompt"} {
				if !r.Checks[step].OK {
					t.Errorf("%s: %s", step, r.Checks[step].Detail)
				}
			}
			for _, step := range steps {
				if c := r.Checks[step]; !c.OK {
					t.Logf("not directly either: %s: %s", step, c.Detail)
				}
			}
		})
	}
}

// secondCell is one way to reach the fixture made with mcp-go.
type secondCell struct{ era, transport string }

var secondCells = []secondCell{
	{"legacy", "http"},
	{"legacy", "sse"},
	{"legacy", "stdio"},
	{"modern", "http"},
	{"modern", "stdio"},
}

func (c secondCell) direct(t *testing.T) target {
	t.Helper()
	to := target{Transport: c.transport, Era: c.era, Label: newLabel("direct")}
	if c.transport == "stdio" {
		to.Command, to.Args = built(t, lab.fixture), []string{"-second"}
		return to
	}
	to.URL = fixtureProcess(t, "both", "-second")
	if c.transport == "sse" {
		to.URL = strings.TrimSuffix(to.URL, "/mcp") + "/sse"
	}
	return to
}

// reaches fails t for each step that works in base and not in through.
func reaches(t *testing.T, base, through report) {
	t.Helper()
	for _, step := range steps {
		switch b, th := base.Checks[step], through.Checks[step]; {
		case b.OK && !th.OK:
			t.Errorf("%s works directly, but not through toolgate: %s", step, th.Detail)
		case step == "call_int64" && b.Detail != th.Detail:
			t.Errorf("%s fails in another way through toolgate: %s; directly %s", step, th.Detail, b.Detail)
		case !b.OK && !th.OK:
			t.Logf("%s works neither way: directly %s; through toolgate %s", step, b.Detail, th.Detail)
		}
	}
}
