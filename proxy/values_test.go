package proxy

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A message of more values than anybody needs is refused before anything is made of
// it, on every way that it may come, and the server does not hear of it.
func TestMessageOfTooManyValues(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("echo"))
	r := newRig(t, mounted(b))
	flood := func(n int) string {
		return `"name":"s__echo","arguments":{"text":[` + strings.Repeat("{},", n-1) + `{}]}`
	}
	const refused = `"id":1,"error":{"code":-32600,"message":"Invalid Request: more than 100000 values at byte `
	legacy := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + flood(100_000) + `}}`
	if w := r.modern("1", "tools/call", flood(100_000)); w.code() != 400 || !strings.Contains(w.text(), refused) {
		t.Errorf("modern: status %d, %.200s", w.code(), w.text())
	}
	if w := r.post(legacy, "Mcp-Session-Id", r.open()); w.code() != 400 || !strings.Contains(w.text(), refused) {
		t.Errorf("legacy: status %d, %.200s", w.code(), w.text())
	}
	if w := r.post("["+legacy+"]", "Mcp-Session-Id", r.openAt("2025-03-26")); w.code() != 400 || !strings.Contains(w.text(), `"code":-32600`) {
		t.Errorf("batch: status %d, %.200s", w.code(), w.text())
	}
	if text, err := r.talk(person("alice"), initBody, legacy); err != nil || !strings.Contains(text, refused) {
		t.Errorf("stdio: %.200s, error %v", text, err)
	}
	if got := b.seen(mcp.MethodToolsCall); len(got) > 0 {
		t.Errorf("the server got %d calls", len(got))
	}
	if w := r.modern("1", "tools/call", flood(99_900)); w.code() != 200 {
		t.Errorf("what is within the bound: status %d, %.200s", w.code(), w.text())
	}
}
