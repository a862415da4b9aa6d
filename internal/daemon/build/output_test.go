package build

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/schema"
)

// TestOutputChecker holds values of every kind against schemas of every kind.
func TestOutputChecker(t *testing.T) {
	t.Parallel()
	o := OutputChecker{Checker: schema.New(schema.Options{})}
	const counted = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	for _, tt := range []struct{ schema, value, problem, err string }{
		{counted, `{"n":1}`, "", ""},
		{counted, `{"n":9007199254740993}`, "", ""},
		{counted, `{"n":"one"}`, "structuredContent/n: ", ""},
		{counted, `{}`, "structuredContent: ", ""},
		{counted, `[1]`, "structuredContent: ", ""},
		{`{"type":"array","items":{"type":"string"}}`, `["a"]`, "", ""},
		{`{"type":"array","items":{"type":"string"}}`, `["a",1]`, "structuredContent/1: ", ""},
		{`{"const":null}`, `null`, "", ""},
		{`{"$ref":"https://elsewhere.example/schema"}`, `{}`, "", "the schema was refused"},
		{`{"type":7}`, `{}`, "", "the schema was refused"},
		{counted, `{"n":1` + strings.Repeat("0", 2000) + `}`, "structuredContent", ""},
		{`{}`, `[` + strings.Repeat("0,", 200_000) + `0]`, "structuredContent: it hold", ""},
	} {
		problems, err := o.CheckOutput([]byte(tt.schema), []byte(tt.value))
		switch {
		case (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err):
			t.Errorf("%s with %.60s: %v", tt.schema, tt.value, err)
		case (problems != nil) != (tt.problem != "") || problems != nil && !strings.HasPrefix(problems[0], tt.problem):
			t.Errorf("%s with %.60s: %q", tt.schema, tt.value, problems)
		}
	}
}
