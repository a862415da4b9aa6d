package proxy

import (
	"context"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// A secret in the name or URI of a listed item is in no entry, although the name is
// known and has an id: the server chose it.
func TestSecretsInNamesThatAreKnown(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[],"contents":[],"messages":[]}`)
	b := newScript(t, "s", mcp.Legacy, tool(secretWord), tool("echo"), `prompt {"name":"`+secretWord+`"}`, `resource {"uri":"db://u:`+secretWord+`@h/a","name":"a"}`,
		`template {"uriTemplate":"db://u:`+secretWord+`@h/{x}","name":"t"}`)
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) { return answer, nil }
	r := newRig(t, mounted(b), func(o *Options, c *Config) {
		c.Recording.Redact = canary{}
		o.CapabilityIDs = func(_ context.Context, keys []CapabilityKey) ([]string, error) {
			ids := make([]string, len(keys))
			for i, k := range keys {
				ids[i] = "cap:" + k.Kind + ":" + strings.ReplaceAll(k.Original, secretWord, "x")
			}
			return ids, nil
		}
	})
	session := r.open()
	for range 2 { // the second time the clean name is cached
		for _, call := range [][2]string{
			{"tools/call", `"name":"s__echo"`},
			{"tools/call", `"name":"s__` + secretWord + `"`},
			{"prompts/get", `"name":"s__` + secretWord + `"`},
			{"resources/read", `"uri":"s+db://u:` + secretWord + `@h/a"`},
			{"resources/read", `"uri":"s+db://u:` + secretWord + `@h/b"`},
		} {
			if got := r.legacy(session, "1", call[0], `{`+call[1]+`}`).text(); !strings.Contains(got, `"result"`) {
				t.Fatalf("%v: %s", call, got)
			}
		}
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	if len(r.ledger.begun) != 10 || len(r.ledger.entries) < 10 {
		t.Fatalf("%d begun, %d ended", len(r.ledger.begun), len(r.ledger.entries))
	}
	withID := 0
	for _, e := range append(append([]audit.Entry{}, r.ledger.begun...), r.ledger.entries...) {
		if strings.Contains(e.Name+e.OriginalName, secretWord) {
			t.Errorf("%s %s: the entry names %s at %s", e.Event, e.Method, e.Name, e.OriginalName)
		}
		if e.CapabilityID != "" && strings.Contains(e.Name, secretMark) {
			withID++
		}
	}
	if withID != 12 { // three listed ones, twice, with two lines each
		t.Errorf("%d entries of listed names", withID)
	}
}
