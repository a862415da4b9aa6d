package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
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
	t.Run("together with others", func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("ask"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}},"b":{"method":"elicitation/create","params":{"message":"?"}}}}`), nil
		}
		r := newRig(t, sampling(b, func(*gate.Identity, []byte) ([]byte, *mcp.Error) {
			t.Error("it is answered")
			return nil, nil
		})).run()
		if got := r.modern("1", "tools/call", `"name":"s__ask"`); !strings.Contains(got.text(), "at once") {
			t.Error(got.text())
		}
	})
}
