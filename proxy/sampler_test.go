package proxy

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// sampling mounts a server whose requests for sampling the gateway answers.
func sampling(b *script, sampler func(id *gate.Identity, params []byte) ([]byte, *mcp.Error)) []Mount {
	mounts := mounted(b)
	mounts[0].Sampler = func(_ context.Context, id *gate.Identity, params []byte) ([]byte, *mcp.Error) {
		return sampler(id, params)
	}
	return mounts
}

const sampled = `{"role":"assistant","content":{"type":"text","text":"blue"},"model":"m"}`

// TestSampled: the gateway answers a server's requests for sampling, of servers and clients of
// both eras and also for a client that offers none, and asks the client nothing.
func TestSampled(t *testing.T) {
	bare := strings.Replace(modernBody("1", "tools/call", `"name":"s__ask"`, ""), `"sampling":{},"elicitation":{"form":{}}`, "", 1)
	const request1 = `"inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}}`
	legacy := func(t *testing.T) *script {
		b := newScript(t, "s", mcp.Legacy, tool("ask"))
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			got, fault := call.AskAndWait(ctx, mcp.MethodSampling, []byte(`{"messages":[],"maxTokens":5}`))
			if fault != nil {
				return answered(mcp.Legacy, `{"content":[{"type":"text","text":`+string(mcp.Quote(fault.Message))+`}],"isError":true}`), nil //nolint:nilerr // the fault is the answer
			}
			return answered(mcp.Legacy, `{"content":[{"type":"text","text":`+string(mcp.Quote(string(got)))+`}]}`), nil
		}
		return b
	}
	modern := func(t *testing.T) *script {
		b := newScript(t, "s", mcp.Modern, tool("ask"))
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			if string(mcp.Lookup(call.Capabilities, "sampling")) != "{}" {
				return answered(mcp.Modern, `{"resultType":"complete","content":[{"type":"text","text":"nobody samples"}],"isError":true}`), nil
			}
			if got := mcp.Lookup(call.Params, "inputResponses", "q"); got != nil {
				return answered(mcp.Modern, `{"resultType":"complete","content":[{"type":"text","text":`+string(mcp.Quote(string(got)))+`}]}`), nil
			}
			return answered(mcp.Modern, `{"resultType":"input_required",`+request1+`,"requestState":"s"}`), nil
		}
		return b
	}
	for server, newServer := range map[string]func(*testing.T) *script{"legacy": legacy, "modern": modern} {
		t.Run(server, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				r := newRig(t, sampling(newServer(t), func(id *gate.Identity, params []byte) ([]byte, *mcp.Error) {
					asked = append(asked, id.Subject+" "+string(params))
					return []byte(sampled), nil
				})).run()
				if got := r.do(modernRequest(bare)); !strings.Contains(got.text(), "blue") || strings.Contains(got.text(), "isError") {
					t.Errorf("a modern client: %s", got.text())
				}
				c := r.stdio(person("alice"))
				c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
				synctest.Wait()
				if out := c.out.drain(); !strings.Contains(out, "blue") || strings.Contains(out, "sampling/createMessage") {
					t.Errorf("a legacy client: %s", out)
				}
				if want := `alice {"messages":[],"maxTokens":5}`; len(asked) != 2 || asked[0] != want || asked[1] != want {
					t.Errorf("asked %q", asked)
				}
			})
		})
	}
	t.Run("not answered", func(t *testing.T) {
		for server, newServer := range map[string]func(*testing.T) *script{"legacy": legacy, "modern": modern} {
			r := newRig(t, sampling(newServer(t), func(*gate.Identity, []byte) ([]byte, *mcp.Error) {
				return nil, mcp.Errorf(mcp.CodeInternal, "the budget is used up")
			})).run()
			if got := r.do(modernRequest(bare)); !strings.Contains(got.text(), "the budget is used up") || !strings.Contains(got.text(), "isError") {
				t.Errorf("%s: %s", server, got.text())
			}
			r = newRig(t, sampling(newServer(t), func(*gate.Identity, []byte) ([]byte, *mcp.Error) { panic("oh") })).run()
			if got := r.do(modernRequest(bare)); !strings.Contains(got.text(), "isError") {
				t.Errorf("%s panics: %s", server, got.text())
			}
		}
	})
	t.Run("too often", func(t *testing.T) {
		n := 0
		b := newScript(t, "s", mcp.Modern, tool("ask"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"input_required",`+request1+`}`), nil
		}
		r := newRig(t, sampling(b, func(*gate.Identity, []byte) ([]byte, *mcp.Error) {
			n++
			return []byte(sampled), nil
		})).run()
		if got := r.do(modernRequest(bare)); !strings.Contains(got.text(), fmt.Sprintf("asked more than %d times", maxRounds)) || n != maxRounds {
			t.Errorf("%d times: %s", n, got.text())
		}
	})
}

// mixing is a server that asks in each of two rounds for a sampling and for something of the
// client at once, and then answers with what it was told.
func mixing(t *testing.T) *script {
	b := newScript(t, "s", mcp.Modern, tool("ask"))
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		round, _ := mcp.LookupString(call.Params, "requestState")
		if got := mcp.Lookup(call.Params, "inputResponses"); got != nil {
			round += " " + string(mcp.Lookup(got, "a", "content")) + string(mcp.Lookup(got, "b", "content"))
		}
		if strings.Count(round, "blue") == 2 {
			return answered(mcp.Modern, `{"resultType":"complete","content":[{"type":"text","text":`+string(mcp.Quote(round))+`}]}`), nil
		}
		return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{`+
			`"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}},`+
			`"b":{"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":`+string(mcp.Quote("state"+round))+`}`), nil
	}
	return b
}

// TestSampledTogether: of an input request for a sampling and for something of the client the
// gateway answers the one, the client the other, and the server gets both.
func TestSampledTogether(t *testing.T) {
	samples := func(n *int) func(*gate.Identity, []byte) ([]byte, *mcp.Error) {
		return func(*gate.Identity, []byte) ([]byte, *mcp.Error) {
			*n++
			return []byte(sampled), nil
		}
	}
	const both = `{\"type\":\"text\",\"text\":\"blue\"}{\"who\":\"ann\"}`
	t.Run("a modern client", func(t *testing.T) {
		for name, shared := range map[string]bool{"alone": false, "with a store": true} {
			t.Run(name, func(t *testing.T) {
				n, options := 0, func(*Options, *Config) {}
				if shared {
					memory, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store")})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = memory.Close() })
					options = func(o *Options, _ *Config) { o.UseRound = memory.Rounds().Use }
				}
				r := newRig(t, sampling(mixing(t), samples(&n)), options).run()
				w := r.modern("1", "tools/call", `"name":"s__ask"`)
				for round := 1; round <= 2; round++ {
					if got := w.text(); strings.Contains(got, "sampling") || strings.Contains(got, "blue") || !strings.Contains(got, `"inputRequests":{"b":{`) || n != round {
						t.Fatalf("round %d, after %d samplings: %s", round, n, got)
					}
					state := stateOf(t, w)
					answer := `"name":"s__ask","inputResponses":{"a":{"content":"mine"},"b":{"action":"accept","content":{"who":"ann"}}},"requestState":"` + state + `"`
					w = r.modern("2", "tools/call", answer)
					if again := r.modern("2", "tools/call", answer); again.text() != badState {
						t.Errorf("a second use: %s", again.text())
					}
				}
				if got := w.text(); strings.Count(got, both) != 2 || strings.Contains(got, "mine") || n != 2 {
					t.Errorf("after %d samplings the server was told %s", n, got)
				}
			})
		}
	})
	t.Run("a legacy client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			r := newRig(t, sampling(mixing(t), samples(&n))).run()
			c := r.stdio(person("alice"))
			c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
			for round := 1; round <= 2; round++ {
				synctest.Wait()
				out := c.out.drain()
				id := mcp.Lookup([]byte(out[strings.LastIndex(out[:strings.Index(out, "elicitation/create")], "{\"jsonrpc\""):]), "id")
				if strings.Contains(out, "sampling/createMessage") || id == nil {
					t.Fatalf("round %d: %s", round, out)
				}
				c.send(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"action":"accept","content":{"who":"ann"}}}`)
			}
			synctest.Wait()
			if out := c.out.drain(); strings.Count(out, both) != 2 || n != 2 {
				t.Errorf("after %d samplings: %s", n, out)
			}
		})
	})
	t.Run("a client that cannot be asked", func(t *testing.T) {
		n := 0
		r := newRig(t, sampling(mixing(t), samples(&n))).run()
		bare := strings.Replace(modernBody("1", "tools/call", `"name":"s__ask"`, ""), `"sampling":{},"elicitation":{"form":{}}`, "", 1)
		if got := r.do(modernRequest(bare)); !strings.Contains(got.text(), "this client or the operator does not allow") || n != 0 {
			t.Errorf("after %d samplings: %s", n, got.text())
		}
	})
	t.Run("an answer that no client carries", func(t *testing.T) {
		r := newRig(t, sampling(mixing(t), func(*gate.Identity, []byte) ([]byte, *mcp.Error) {
			return []byte(`{"role":"assistant","content":{"type":"text","text":"` + strings.Repeat("b", maxSampled) + `"},"model":"m"}`), nil
		})).run()
		if got := r.modern("1", "tools/call", `"name":"s__ask"`); !strings.Contains(got.text(), "which no client carries") {
			t.Errorf("%.300s", got.text())
		}
	})
}
