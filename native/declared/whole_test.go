package declared

import (
	"encoding/json"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A tool that an agent made of a template sends as "{*}" what was held against the
// template's schema: with the defaults, and without what that schema does not name.
func TestAllArgumentsOfATemplate(t *testing.T) {
	within := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"dry_run":{"const":true}},"required":["path","dry_run"]}`)
	input := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"dry_run":{"default":true}},"required":["path"],"patternProperties":{"^x":{}}}`)
	for _, tt := range []struct {
		name   string
		within json.RawMessage
		want   string
	}{
		{"an operator's own tool", nil, `{"path":"a","xmore":1}`},
		{"made of a template", within, `{"dry_run":true,"path":"a"}`},
	} {
		tool := Tool{Name: "t", Command: &Command{Args: []string{"/bin/cat"}, Stdin: []byte(`"{*}"`)}, Input: input, Within: tt.within}
		b, err := New("own", []Tool{tool})
		if err != nil {
			t.Fatal(err)
		}
		c := b.tools["t"]
		args := []byte(`{"path":"a","xmore":1}`)
		if got := c.whole(c.values(args), args); mcp.Hash(got) != mcp.Hash([]byte(tt.want)) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
