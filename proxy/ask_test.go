package proxy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// questioner is a backend whose tools ask before they answer; the client's answer is in
// the result.
func questioner(t *testing.T, era mcp.Era, method, params string) *script {
	b := newScript(t, "s", era, tool("ask"))
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		answer, refused := call.AskAndWait(ctx, method, []byte(params))
		if ctx.Err() != nil {
			return mcp.Answer{}, context.Cause(ctx)
		}
		if refused != nil {
			answer = refused.Append(nil)
		}
		return answered(era, `{"content":[],"said":`+string(answer)+`}`), nil
	}
	return b
}

func said(w string) string { return string(mcp.Lookup([]byte(w), "result", "said")) }

// A question that the client did not declare, or the operator does not allow, is an
// error for the server in both eras: nobody was asked, so nobody has declined.
func TestQuestionsThatNobodyIsAsked(t *testing.T) {
	none := func(method string) string {
		return `{"code":-32601,"message":"Method not found: the client does not offer ` + method + `"}`
	}
	form := func(method string) string {
		return `{"code":-32602,"message":"Invalid params: the client does not offer ` + method + ` in this form"}`
	}
	denied := func(method string) string {
		return `{"code":-32603,"message":"` + method + ` is not put to the client: the operator does not allow it, or these are too many"}`
	}
	tests := []struct {
		name, capabilities string
		questions          Questions
		method, params     string
		want               string
	}{
		{"elicitation not declared", `{}`, Questions{Elicitation: true}, mcp.MethodElicit, `{"message":"m"}`, none(mcp.MethodElicit)},
		{"elicitation not allowed", `{"elicitation":{}}`, Questions{}, mcp.MethodElicit, `{"message":"m"}`, denied(mcp.MethodElicit)},
		{"elicitation by URL not declared", `{"elicitation":{}}`, Questions{Elicitation: true}, mcp.MethodElicit, `{"mode":"url"}`, form(mcp.MethodElicit)},
		{"elicitation by form not declared", `{"elicitation":{"url":{}}}`, Questions{Elicitation: true}, mcp.MethodElicit, `{"message":"m"}`, form(mcp.MethodElicit)},
		{"elicitation by an unsafe URL", `{"elicitation":{"url":{}}}`, Questions{Elicitation: true}, mcp.MethodElicit, `{"mode":"url","url":"http://example.com/"}`, denied(mcp.MethodElicit)},
		{"elicitation by a script", `{"elicitation":{"url":{}}}`, Questions{Elicitation: true}, mcp.MethodElicit, `{"mode":"url","url":"javascript:alert(1)"}`, denied(mcp.MethodElicit)},
		{"sampling with tools not declared", `{"sampling":{}}`, Questions{Sampling: true}, mcp.MethodSampling, `{"messages":[],"tools":[]}`, form(mcp.MethodSampling)},
		{"sampling not declared", `{"elicitation":{}}`, Questions{Sampling: true}, mcp.MethodSampling, `{"messages":[]}`, none(mcp.MethodSampling)},
		{"sampling not allowed", `{"sampling":{}}`, Questions{Elicitation: true}, mcp.MethodSampling, `{"messages":[]}`, denied(mcp.MethodSampling)},
		{"roots not declared", `{}`, Questions{Roots: true}, mcp.MethodRoots, ``, none(mcp.MethodRoots)},
		{"roots not allowed", `{"roots":{}}`, Questions{}, mcp.MethodRoots, ``, denied(mcp.MethodRoots)},
		{"no question at all", `{}`, Questions{true, true, true}, "tools/call", `{}`, none("tools/call")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := questioner(t, mcp.Legacy, tt.method, tt.params)
			mounts := mounted(b)
			mounts[0].Questions = tt.questions
			r := newRig(t, mounts)
			init := strings.Replace(initBody, `{"sampling":{},"elicitation":{},"roots":{}}`, tt.capabilities, 1)
			session := r.post(init).field("Mcp-Session-Id")
			w := r.legacy(session, "1", "tools/call", `{"name":"s__ask"}`)
			if w.field("Content-Type") != "application/json" || said(w.text()) != tt.want {
				t.Errorf("%s, want %s", w.text(), tt.want)
			}
			w = r.do(modernRequest(strings.Replace(modernBody("1", "tools/call", `"name":"s__ask"`, ""),
				`{"sampling":{},"elicitation":{"form":{}}}`, tt.capabilities, 1)))
			if w.field("Content-Type") != "application/json" || said(w.text()) != tt.want {
				t.Errorf("a modern client: %s, want %s", w.text(), tt.want)
			}
		})
	}
}

// On any transport, a question goes to the client whose call caused it, and only that
// client can answer it.
func TestAskedOnStdio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(questioner(t, mcp.Legacy, mcp.MethodRoots, ``))).run()
		asked, other := r.stdio(person("alice")), r.stdio(person("alice"))
		asked.send(initBody)
		other.send(initBody)
		synctest.Wait()
		asked.out.drain()
		other.out.drain()
		asked.send(request("1", "tools/call", `{"name":"s__ask"}`))
		synctest.Wait()
		if got := asked.out.drain(); got != `{"jsonrpc":"2.0","id":"toolgate-1","method":"roots/list"}`+"\n" {
			t.Errorf("asked %q", got)
		}
		const answer = `{"jsonrpc":"2.0","id":"toolgate-1","result":{"roots":[{"uri":"file:///home","n":9007199254740993}],"_meta":{"io.modelcontextprotocol/x":1,"own":2}}}`
		other.send(answer)
		asked.send(`{"jsonrpc":"2.0","id":"toolgate-2","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		synctest.Wait()
		if got := asked.out.drain() + other.out.drain(); got != "" {
			t.Errorf("answered by somebody else: %s", got)
		}
		asked.send(answer, answer) // the second answers nothing
		synctest.Wait()
		if got, want := said(asked.out.drain()), `{"roots":[{"uri":"file:///home","n":9007199254740993}],"_meta":{"own":2}}`; got != want {
			t.Errorf("the server was told %s, want %s", got, want)
		}
	})
}

// A client's refusal reaches the server unchanged.
func TestQuestionsAnsweredByErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(questioner(t, mcp.Legacy, mcp.MethodElicit, `{"message":"m","requestedSchema":{}}`))).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
		synctest.Wait()
		c.out.drain()
		const no = `{"data":{"n":9007199254740993},"code":-7,"message":"n\u006f","more":1}`
		c.send(`{"jsonrpc":"2.0","id":"toolgate-1","error":` + no + `}`)
		synctest.Wait()
		if got := said(c.out.drain()); got != no {
			t.Errorf("the server was told %s, want %s", got, no)
		}
	})
}

// A question is withdrawn when its call ends.
func TestQuestionsAreWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(questioner(t, mcp.Legacy, mcp.MethodElicit, `{"message":"m"}`))).run()
		session := r.open()
		w, _ := r.begin(httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__ask"}`), "Mcp-Session-Id", session))
		synctest.Wait()
		w.next()
		r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Session-Id", session)
		<-w.done
		if got := w.next(); !strings.Contains(got, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"toolgate-1"}}`) || strings.Contains(got, `"result"`) {
			t.Errorf("the client was told %q", got)
		}
		// So it is at the end of the session, without a message to the client.
		w, _ = r.begin(httpRequest("POST", "/mcp", request("2", "tools/call", `{"name":"s__ask"}`), "Mcp-Session-Id", session))
		synctest.Wait()
		r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", session))
		<-w.done
		time.Sleep(time.Second)
		// The server may still answer between the end of the question and that of the
		// call; either way the call is closed.
		if got := r.ledger.outcomes(); len(got) != 2 || got[0] != "cancelled" {
			t.Errorf("audit %v", got)
		}
	})
}

// Nobody can be asked during a batch.
func TestQuestionsInABatch(t *testing.T) {
	r := newRig(t, mounted(questioner(t, mcp.Legacy, mcp.MethodElicit, `{"message":"m"}`)))
	session := r.post(strings.Replace(initBody, "2025-11-25", "2025-03-26", 1)).field("Mcp-Session-Id")
	w := r.post(`[`+request("1", "tools/call", `{"name":"s__ask"}`)+`]`, "Mcp-Session-Id", session)
	if !strings.Contains(w.text(), `"code":-32601`) {
		t.Errorf("%s", w.text())
	}
}
