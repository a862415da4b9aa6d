package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
)

// found is the members of a call of a tool by the find view.
func found(name, arguments string) string {
	return `"name":"` + findview.CallDestructive + `","arguments":{"name":"` + name + `","arguments":` + arguments + `}`
}

// TestFoundRounds answers a question of a server during a call by the find view.
func TestFoundRounds(t *testing.T) {
	b := asking(t, 2)
	r := &findRig{noted(t, b, nil, nil), t}
	w := r.post("/mcp/find", "tools/call", found("s__ask", "{}"))
	for range 2 {
		w = r.post("/mcp/find", "tools/call", found("s__ask", "{}")+`,"inputResponses":{"q":{"action":"accept"}},"requestState":"`+stateOf(t, w)+`"`)
	}
	if !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("after the last answer: %s", w.text())
	}
	var own []audit.Entry
	for _, e := range r.ledger.all() {
		if e.Outcome != "" && e.Name == "s__ask" {
			own = append(own, e)
		}
	}
	if len(own) != 1 || own[0].Via != findview.CallDestructive || own[0].Rounds != 2 {
		t.Errorf("the entries: %+v", own)
	}
}

// TestFoundTask makes a task by the find view, which is polled like any other.
func TestFoundTask(t *testing.T) {
	b := newWorker(t, mcp.Modern, working, completed)
	r := &findRig{noted(t, b.script, nil, nil), t}
	tasked := func(method, members string) *recorder {
		body := strings.Replace(modernBody("1", method, members, ""), `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
		req := modernRequest(body)
		req.URL.Path = "/mcp/find"
		return r.do(req)
	}
	id := taskID(t, tasked("tools/call", found("s__job", "{}")))
	tasked("tasks/get", ofTask(id))
	if w := tasked("tasks/get", ofTask(id)); !strings.Contains(w.text(), `"status":"completed"`) {
		t.Errorf("the task: %s", w.text())
	}
}

// TestFoundByLegacyClients finds and calls on a stream of lines in every legacy
// revision, with progress, a log message, a question, and a cancellation.
func TestFoundByLegacyClients(t *testing.T) {
	for _, version := range []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		synctest.Test(t, func(t *testing.T) {
			began := make(chan struct{}, 1)
			b := newScript(t, "s", mcp.Legacy, tool("job"), tool("slow"))
			b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
				if call.Key == "slow" {
					began <- struct{}{}
					<-ctx.Done()
					return mcp.Answer{}, context.Cause(ctx)
				}
				return answered(mcp.Legacy, `{"content":[{"type":"text","text":"done"}]}`), nil
			}
			r := newRig(t, mounted(b)).run()
			in, feed := io.Pipe()
			c := &wire{t: t, in: feed, out: &syncBuffer{}, done: make(chan struct{})}
			go func() {
				defer close(c.done)
				c.err = r.ServeStdio(t.Context(), person("alice"), Scope{View: FindView}, in, c.out)
			}()
			c.send(
				strings.Replace(initBody, string(mcp.V20251125), string(version), 1), `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				request("1", "tools/list", "{}"),
				request("2", "tools/call", `{"name":"`+findview.FindTools+`","arguments":{"query":"a job"}}`),
				request("3", "tools/call", "{"+found("s__job", "{}")+"}"),
				request("4", "tools/call", "{"+found("s__slow", "{}")+"}"),
			)
			<-began
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
			synctest.Wait()
			_ = feed.Close()
			<-c.done
			out := c.out.String()
			for _, want := range []string{findview.CallRead, `s__job`, `"text":"done"`} {
				if !strings.Contains(out, want) {
					t.Errorf("%s: no %s in %s", version, want, out)
				}
			}
			if has := strings.Contains(out, "structuredContent"); has != (version >= mcp.V20250618) {
				t.Errorf("%s: structured content: %v", version, has)
			}
			if strings.Contains(out, `"id":4`) {
				t.Errorf("%s: the cancelled call was answered: %s", version, out)
			}
			if outcomes := r.ledger.outcomes(); !slices.Contains(outcomes, audit.OutcomeCancelled) {
				t.Errorf("%s: outcomes %v", version, outcomes)
			}
		})
	}
}

// TestFindOverSSE finds over the transport of 2024-11-05.
func TestFindOverSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(issues(t))).run()
		stream, cancel := r.begin(httpRequest(http.MethodGet, "/sse/find", ""))
		synctest.Wait()
		_, rest, _ := strings.Cut(stream.text(), "sessionId=")
		id, _, _ := strings.Cut(rest, "\n")
		for _, body := range []string{initBody, request("1", "tools/list", "{}")} {
			if w := r.do(httpRequest(http.MethodPost, "/message?sessionId="+id, body)); w.code() != http.StatusAccepted {
				t.Errorf("status %d: %s", w.code(), w.text())
			}
		}
		synctest.Wait()
		if out := stream.text(); !strings.Contains(out, findview.FindTools) || strings.Contains(out, "github__delete_repo") {
			t.Errorf("the stream: %s", out)
		}
		cancel()
	})
}

// TestNotesOfServers searches while a server does not do what it could.
func TestNotesOfServers(t *testing.T) {
	address := func(*gate.Identity, error) string { return "https://gw.example/join" }
	never := func(*gate.Identity, mcp.Kind, string) bool { return false }
	always := func(*gate.Identity, mcp.Kind, string) bool { return true }
	const signIn = `"Tools of the server github may be missing until the user has signed in at https://gw.example/join"`
	each := []byte("{}") // of a server to which each caller signs in
	for name, tt := range map[string]struct {
		state mcp.State
		mount Mount
		want  string
	}{
		"ready":                   {state: mcp.Ready},
		"down":                    {mcp.Failed, Mount{}, "does not answer at the moment"},
		"the operator's":          {mcp.NeedsLogin, Mount{}, "may be missing until the operator has signed in to it."},
		"nobody has signed in":    {mcp.NeedsLogin, Mount{SignInTool: each, SignIn: address, Listed: never}, signIn},
		"others have":             {mcp.Ready, Mount{SignInTool: each, SignIn: address, Listed: never}, signIn},
		"that of others is down":  {mcp.Failed, Mount{SignInTool: each, SignIn: address, Listed: never}, signIn},
		"the caller has":          {mcp.Failed, Mount{SignInTool: each, SignIn: address, Listed: always}, ""},
		"nobody can":              {mcp.NeedsLogin, Mount{SignInTool: each, Listed: never}, "the gateway has no credential of the caller for it."},
		"nobody can, others have": {mcp.Ready, Mount{SignInTool: each, Listed: never}, ""},
	} {
		b := issues(t)
		b.status.State = tt.state
		r := newFindRig(t, func(c *Config) {
			c.Mounts[0].SignInTool, c.Mounts[0].SignIn, c.Mounts[0].Listed = tt.mount.SignInTool, tt.mount.SignIn, tt.mount.Listed
		}, b)
		got := string(structured(t, r.call(findview.FindTools, `{"query":"list issues"}`)))
		if !strings.Contains(got, tt.want) || strings.Contains(got, `"notes"`) != (tt.want != "") || !strings.Contains(got, "github__list_issues") {
			t.Errorf("%s: want %q: %s", name, tt.want, got)
		}
		// A person who asks as somebody else is given no address that is theirs.
		ranked, err := Rank(t.Context(), r.Gateway, gate.NewIdentity(gate.Identity{Principal: gate.Local}), Scope{}, findview.Query{Text: "list issues", Kind: mcp.Tool, Limit: 5})
		if err != nil || strings.Contains(strings.Join(ranked.Notes, " "), "https://") || (len(ranked.Notes) == 0) != (tt.want == "") {
			t.Errorf("%s: want %q: %q, %v", name, tt.want, ranked.Notes, err)
		}
	}
}
