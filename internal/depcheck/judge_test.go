package depcheck_test

import "testing"

func TestRuleOfTakesTheMostSpecific(t *testing.T) {
	for path, want := range map[string]string{
		"upstream":               "upstream",
		"upstream/websocket":     "upstream/...",
		"cmd/toolgate":           "cmd/toolgate/...",
		"cmd/toolgate/doctor":    "cmd/toolgate/...",
		"cmd/toolgatex":          "",
		"proxy/auth":             "proxy/auth",
		"proxy/other":            "",
		"internal/newcomer":      "",
		"internal/e2e/cmd/thing": "internal/e2e/...",
		"":                       "",
	} {
		for range 20 { // the order of a map must not matter
			if key, _, _ := ruleOf(path); key != want {
				t.Errorf("rule of %q is %q, want %q", path, key, want)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	const thirdParty = "github.com/sony/gobreaker/v2"
	for _, tc := range []struct {
		importer, imported string
		bad                bool
	}{
		{"proxy", "net/http", false},
		{"proxy", module + "/gate", false},
		{"proxy", module + "/gate/opa", true},
		{"proxy", module + "/internal/mcp", false},
		{"proxy", module + "/internal/e2e", true}, // inside internal/..., but closed
		{"proxy", module + "/upstream", true},
		{"proxy", module + "/cmd/toolgate", true},
		{"proxy/guard", thirdParty, false},
		{"proxy/guard", thirdParty + "x", true},
		{"gate", thirdParty, true},
		{"gate", module + "/proxy", true},
		{"config", module + "/internal/mcp", true},
		{"internal/mcp", "golang.org/x/text/unicode/norm", true},
		{"cmd/toolgate", module + "/internal/admin", false},
		{"cmd/toolgate", module + "/examples/echo", true},
		{"internal/e2e/cmd/fixture", module + "/internal/e2e/fixture", false},
	} {
		_, r, ok := ruleOf(tc.importer)
		if !ok {
			t.Fatalf("%s has no rule", tc.importer)
		}
		if complaint := r.judge(tc.importer, tc.imported, nil); (complaint != "") != tc.bad {
			t.Errorf("%s -> %s: %q, want a complaint: %v", tc.importer, tc.imported, complaint, tc.bad)
		}
	}
}
