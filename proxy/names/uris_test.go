package names

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestExposeURIs(t *testing.T) {
	tests := []struct{ name, method, in, want string }{
		{
			"tool result", mcp.MethodToolsCall,
			`{"uri":"no","content":[{"type":"resource_link", "uri" : "file:///a"},{"type":"resource","resource":{"uri":"ui://x"}},{"type":"text","text":"uri\"","uri":"no"},{"type":"other","uri":"no"},7],"structuredContent":{"uri":"no"}}`,
			`{"uri":"no","content":[{"type":"resource_link", "uri" : "n+file:///a"},{"type":"resource","resource":{"uri":"ui://n+x"}},{"type":"text","text":"uri\"","uri":"no"},{"type":"other","uri":"no"},7],"structuredContent":{"uri":"no"}}`,
		},
		{"escapes", mcp.MethodToolsCall, `{"content":[{"type":"resource_link","uri":"\u0075i://x"},{"type":"resource_link","uri":"f\u003aé"}]}`, `{"content":[{"type":"resource_link","uri":"ui://n+x"},{"type":"resource_link","uri":"n+f\u003aé"}]}`},
		{"keys and types with escapes", mcp.MethodToolsCall, `{"content":[{"type":"resource_link","\u0075ri":"b+file:///x"},{"ty\u0070e":"resource\u005flink","uri":"b+file:///x"}]}`, `{"content":[{"type":"resource_link","\u0075ri":"n+b+file:///x"},{"ty\u0070e":"resource\u005flink","uri":"n+b+file:///x"}]}`},
		{"odd types", mcp.MethodToolsCall, `{"content":[{"type":"resource_link","uri":7},{"type":"resource"},{"type":"resource","resource":[{"uri":"x"}]},{"uri":"x"}]}`, `{"content":[{"type":"resource_link","uri":7},{"type":"resource"},{"type":"resource","resource":[{"uri":"x"}]},{"uri":"x"}]}`},
		{"nested tool result", mcp.MethodSampling, `{"messages":[{"content":{"type":"tool_result","content":[{"type":"resource_link","uri":"a:b"}]}}]}`, `{"messages":[{"content":{"type":"tool_result","content":[{"type":"resource_link","uri":"n+a:b"}]}}]}`},
		{"prompt", mcp.MethodPromptsGet, `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b"}}},{"content":[{"type":"resource_link","uri":"a:c"}]}]}`, `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"n+a:b"}}},{"content":[{"type":"resource_link","uri":"n+a:c"}]}]}`},
		{"read", mcp.MethodRead, `{"contents":[{"uri":"a:b","text":"x"},{"text":"y","uri":"ui://z"}]}`, `{"contents":[{"uri":"n+a:b","text":"x"},{"text":"y","uri":"ui://n+z"}]}`},
		{"updated", mcp.NotifyResourceUpdated, `{"uri":"a:b"}`, `{"uri":"n+a:b"}`},
		{"another method", mcp.MethodComplete, `{"uri":"a:b"}`, `{"uri":"a:b"}`},
	}
	for _, tt := range tests {
		if got := string(ExposeURIs("n", tt.method, []byte(tt.in))); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
		in := []byte(tt.in)
		if got := ExposeURIs("", tt.method, in); &got[0] != &in[0] {
			t.Errorf("%s: without a namespace the bytes were copied", tt.name)
		}
	}
	plain := []byte(`{"content":[{"type":"text","text":"x"}]}`)
	if got := ExposeURIs("n", mcp.MethodToolsCall, plain); &got[0] != &plain[0] {
		t.Error("a result without URIs was copied")
	}
}
