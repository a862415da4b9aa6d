//go:build !windows

package daemon_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

const notifySecret = "a-secret-of-at-least-thirty-two-characters"

// posts is a receiver of webhooks and what it has got.
func posts(t *testing.T) (url string, got chan string) {
	t.Helper()
	got = make(chan string, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		seconds, sum, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(approval.SignatureHeader), "t="), ",v1=")
		h := hmac.New(sha256.New, []byte(notifySecret))
		h.Write([]byte(seconds + "."))
		h.Write(body)
		if err != nil || hex.EncodeToString(h.Sum(nil)) != sum {
			t.Errorf("%s is signed with %s, %v", body, r.Header.Get(approval.SignatureHeader), err)
		}
		got <- string(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// elicited is a call of notify__user by a client of 2026-07-28 that shows questions.
func (r *running) elicited(t *testing.T, key, params string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"notify__user",` + params + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + string(mcp.V20260728) + `","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	return r.post(t, key, "/mcp", body, mcp.HeaderVersion, string(mcp.V20260728), mcp.HeaderMethod, mcp.MethodToolsCall, mcp.HeaderName, "notify__user").body
}

// A user is told by the client of the call where it shows questions, and by the webhook
// where it does not. Nobody else can answer for the user.
func TestNotifyUser(t *testing.T) {
	t.Parallel()
	url, got := posts(t)
	h := newHome(t)
	server := fake("one")
	server["env"] = map[string]any{"API_TOKEN": "correct-horse-battery-staple"}
	section := withKeys("alice", "bob")
	native := map[string]any{"notify": map[string]any{"webhook": map[string]any{"url": url, "secret": notifySecret}}}
	section["native"] = native
	h.write(t, servers{"a": server}, section)
	r := h.newRunning(t)

	const args = `"arguments":{"message":"done","title":"Build"}`
	asked := r.elicited(t, "alice", args)
	state, _ := mcp.LookupString([]byte(asked), "result", "requestState")
	var question, shown string
	for m := range mcp.Members(mcp.Lookup([]byte(asked), "result", "inputRequests")) {
		requests := mcp.Lookup([]byte(asked), "result", "inputRequests")
		question, _ = mcp.Unquote(m.Key(requests))
		shown, _ = mcp.LookupString(m.Value.Of(requests), "params", "message")
	}
	if state == "" || !strings.Contains(shown, "Build\n\ndone") {
		t.Fatalf("asked: %s", asked)
	}
	answer := args + `,"requestState":"` + state + `","inputResponses":{"` + question + `":{"action":"accept","content":{}}}`
	if other := r.elicited(t, "bob", answer); strings.Contains(other, `"by"`) {
		t.Errorf("bob answers for alice: %s", other)
	}
	if told := r.elicited(t, "alice", answer); !strings.Contains(told, `{"by":"client","action":"accept"}`) {
		t.Errorf("answered: %s", told)
	}
	if len(got) != 0 {
		t.Errorf("posted, though the client has shown it: %s", <-got)
	}

	if told := text(t, r.Client(t, "alice"), "notify__user", `{"message":"the token is correct-horse-battery-staple","level":"error"}`); told != `{"by":"webhook"}` {
		t.Errorf("told: %s", told)
	}
	body := testwait.Receive(t, patience, "the webhook is told", got)
	if !strings.Contains(body, `{"kind":"notification","level":"error","message":"the token is [redacted`) || !strings.Contains(body, `"subject":"alice"`) || strings.Contains(body, "correct-horse") {
		t.Errorf("posted: %s", body)
	}

	// A legacy client that declares no elicitation is not asked.
	native["notify"] = map[string]any{}
	h.write(t, servers{"a": server}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if told := text(t, r.Client(t, "alice"), "notify__user", `{"message":"done"}`); !strings.Contains(told, "native.notify.webhook") {
		t.Errorf("without a webhook: %s", told)
	}
	if len(got) != 0 {
		t.Errorf("posted without a webhook: %s", <-got)
	}

	// One caller's rate is not another's.
	for range 60 {
		if tried(t.Context(), r.Client(t, "bob"), "notify__user", `{"message":"done"}`) == "rate_limited" {
			break
		}
	}
	if got := tried(t.Context(), r.Client(t, "bob"), "notify__user", `{"message":"done"}`); got != "rate_limited" {
		t.Errorf("after 60 messages: %s", got)
	}
	if got := tried(t.Context(), r.Client(t, "alice"), "notify__user", `{"message":"done"}`); got == "rate_limited" {
		t.Error("the messages of bob count for alice")
	}
}
