package proxy

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/result"
)

// lentAnswer is an answer as the connection to a server returns it: a part of a message that
// lies in the memory of the call.
func lentAnswer(t testing.TB, call *mcp.Call, era mcp.Era, raw string) mcp.Answer {
	message := `{"jsonrpc":"2.0","id":7,"result":` + raw + `}`
	lent := call.Memory.Take(len(message))
	copy(lent, message)
	msg, err := mcp.Parse(lent, mcp.Limits{})
	if err != nil {
		t.Error(err)
	}
	result := msg.LentResult()
	return mcp.Answer{Result: result, Era: era, Known: msg.KnownResult(result)}
}

// scribble overwrites all memory that is free to be lent.
func scribble() {
	var all arena.Arena
	defer all.Free()
	for range 8 {
		for _, n := range []int{20 << 10, 100 << 10, 400 << 10} {
			copy(all.Take(n), bytes.Repeat([]byte("!"), n))
		}
	}
}

// TestLentMemory: nobody gets what another caller's result has left in memory, whatever the
// gateway does with results.
func TestLentMemory(t *testing.T) {
	sizes := []int{100, 20 << 10, 70 << 10, 300 << 10}
	text := func(who string, n int) string { return strings.Repeat(who+";", sizes[n%len(sizes)]/(len(who)+1)) }
	after := interceptor("looks", func(inv *intercept.Invocation) (intercept.Verdict, error) {
		return intercept.Verdict{Effect: intercept.Pass}, nil
	}, intercept.After)
	for name, change := range map[string]func(*Options, *Config){
		"as it is": func(*Options, *Config) {},
		"kept":     withResults(result.Rules{MaxBytes: 50 << 10, Larger: result.KeepLarger}),
		"reused": func(_ *Options, c *Config) {
			c.Mounts[0].Tools = map[string]ToolShape{"echo": {Reuse: time.Minute}}
			c.Reusable = func(*gate.Request, []byte) (string, bool) { return "NORMAL", true }
		},
		"selected":    withResults(result.Rules{Shaping: result.Shaping{Drop: []result.Path{{"secret"}}}}),
		"redacted":    withResults(result.Rules{Redact: canaries}),
		"intercepted": intercepting(after),
	} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			b := newScript(t, "s", era, tool("echo"))
			b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
				said, _ := mcp.LookupString(call.Params, "arguments", "text")
				more := ""
				if era == mcp.Modern {
					more = `,"resultType":"complete"`
				}
				return lentAnswer(t, call, era, `{"content":[{"type":"text","text":"`+said+`"}]`+more+`}`), nil
			}
			r := newRig(t, mounted(b), change)
			session := r.open()
			var wg sync.WaitGroup
			for caller := range 3 {
				who := [...]string{"alice", "bob", "bob"}[caller]
				wg.Go(func() {
					var kept []string
					for n := range 3 * len(sizes) {
						want := text(who, n)
						arguments := `"name":"s__echo","arguments":{"text":"` + want + `"}`
						var w *recorder
						if caller == 0 {
							w = r.legacy(session, "1", "tools/call", "{"+arguments+"}")
						} else {
							w = r.modern("1", "tools/call", arguments, "Authorization", "Bearer "+who)
						}
						got := []byte(resultOf(w))
						if err := mcp.Validate([]byte(w.text()), mcp.Limits{}); err != nil {
							t.Errorf("%s, %v, %s: %v", name, era, who, err)
						}
						content := mcp.Lookup(got, "content")
						first := mcp.Span{}
						for e := range mcp.Elements(content) {
							first = e
							break
						}
						said, _ := mcp.LookupString(first.Of(content), "text")
						if name == "kept" && len(want) > 50<<10 {
							said, _, _ = strings.Cut(said, "\n")
							kept = append(kept, keptAs(w))
							said = strings.Trim(strings.ReplaceAll(said, who+";", ""), ".")
							if strings.Contains(said, "!") || strings.Contains(said, "\xdb") {
								t.Errorf("%s, %v, %s: cut to %.80q", name, era, who, said)
							}
							continue
						}
						if said != want {
							t.Errorf("%s, %v, %s: %d bytes, want %d: %.200s", name, era, who, len(said), len(want), w.text())
						}
						scribble()
					}
					for _, uri := range slices.Compact(kept) {
						w := r.modern("2", "resources/read", `"uri":"`+uri+`"`, "Authorization", "Bearer "+who)
						if caller > 0 && strings.Count(w.text(), who+";") < 60<<10/(len(who)+1) {
							t.Errorf("%s, %v, %s: the kept result is %d bytes: %.200s", name, era, who, len(w.text()), w.text())
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

// TestOwned: a large result grows in place, and its memory is used again; what somebody else
// may read later does not.
func TestOwned(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Options, *Config)
		want   bool
	}{
		"as it is": {func(*Options, *Config) {}, true},
		"kept":     {withResults(result.Rules{MaxBytes: 10 << 10, Larger: result.KeepLarger}), false},
		"reused": {func(_ *Options, c *Config) {
			c.Mounts[0].Tools = map[string]ToolShape{"echo": {Reuse: time.Minute}}
			c.Reusable = func(*gate.Request, []byte) (string, bool) { return "NORMAL", true }
		}, false},
		"intercepted": {intercepting(interceptor("looks", func(*intercept.Invocation) (intercept.Verdict, error) {
			return intercept.Verdict{Effect: intercept.Pass}, nil
		}, intercept.After)), false},
	} {
		b := newScript(t, "s", mcp.Modern, tool("echo"))
		var lent []byte
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			got := lentAnswer(t, call, mcp.Modern, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 20<<10)+`"}],"resultType":"complete"}`)
			lent = got.Result
			return got, nil
		}
		r := newRig(t, mounted(b), tt.change)
		if w := r.modern("1", "tools/call", `"name":"s__echo"`); !strings.Contains(w.text(), strings.Repeat("x", 5<<10)) {
			t.Fatalf("%s: %.300s", name, w.text())
		}
		if grown := lent[0] != '{'; grown != tt.want { // the byte before its first member, where _meta ends
			t.Errorf("%s: grown in place is %v, want %v", name, grown, tt.want)
		}
	}
}
