package schemas_test

import (
	"testing"

	"github.com/toolgate/toolgate/proxy/schemas"
)

func TestModes(t *testing.T) {
	t.Parallel()
	const tool = `{"name":"f","inputSchema":{"type":"object","properties":{"page_size":{"type":["integer","null"],"title":"Page Size","default":null}}},"outputSchema":{"type":"object","title":"Out"},"x":1}`
	for _, tt := range []struct {
		mode       schemas.Mode
		tool, want string
		translates bool
	}{
		{"", tool, tool, false},
		{schemas.Verbatim, tool, tool, false},
		{schemas.CompactMode, tool, `{"name":"f","inputSchema":{"type":"object","properties":{"page_size":{"type":["integer","null"]}}},"outputSchema":{"type":"object"},"x":1}`, false},
		{schemas.StrictMode, tool, `{"name":"f","inputSchema":{"type":"object","properties":{"page_size":{"type":"integer"}}},"outputSchema":{"type":"object"},"x":1}`, false},
		{
			schemas.StrictMode, `{"name":"f","inputSchema":{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}}`,
			`{"name":"f","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"Leave it out for null."}}}}`, true,
		},
		{schemas.StrictMode, `{"name":"f"}`, `{"inputSchema":{"type":"object","properties":{}},"name":"f"}`, false},
		{schemas.CompactMode, `{"name":"f"}`, `{"name":"f"}`, false},
	} {
		got, r := tt.mode.Tool([]byte(tt.tool))
		if string(got) != tt.want || r.Translates() != tt.translates {
			t.Errorf("%s: %s %v\nwant %s", tt.mode, got, r.Translates(), tt.want)
		}
	}
}
