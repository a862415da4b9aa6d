package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/intercept/webhook"
)

const key = "a secret of at least 32 characters"

// asks returns a webhook whose receiver answers by a function.
func asks(t *testing.T, answer http.HandlerFunc) *webhook.Webhook {
	t.Helper()
	receiver := httptest.NewServer(answer)
	t.Cleanup(receiver.Close)
	return webhook.New("dlp", intercept.Webhook{URL: receiver.URL, Secret: secret.Text(key)})
}

func invocation(phase intercept.Phase, payload string) *intercept.Invocation {
	return &intercept.Invocation{
		Call:  &intercept.Call{ID: "gw-1", Method: mcp.MethodToolsCall, Principal: "alice", Tenant: "acme", Server: "s", Name: "s__echo"},
		Phase: phase, Payload: []byte(payload),
	}
}

// TestQuestion: the receiver gets everything that is known of the call, signed.
func TestQuestion(t *testing.T) {
	var got map[string]any
	w := asks(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seconds, sum, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Toolgate-Signature"), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(seconds + "."))
		mac.Write(body)
		if sum != hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("the signature is %q", r.Header.Get("Toolgate-Signature"))
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"decision":"ask","reason":"large","arguments":{"n":1}}`)
	})
	v, err := w.Intercept(t.Context(), invocation(intercept.Before, `{"n":9007199254740993}`))
	if err != nil || v.Effect != intercept.Ask || v.Reason != "large" || string(v.Payload) != `{"n":1}` {
		t.Errorf("%+v, %v", v, err)
	}
	for member, want := range map[string]string{
		"interceptor": "dlp", "phase": "before", "call": "gw-1", "method": "tools/call", "principal": "alice", "tenant": "acme", "server": "s", "name": "s__echo",
	} {
		if got[member] != want {
			t.Errorf("%s is %v, want %s", member, got[member], want)
		}
	}
	if got["arguments"] == nil || got["result"] != nil {
		t.Errorf("the question is %v", got)
	}
}

// TestAnswers: what is not understood completely decides nothing.
func TestAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		`{"decision":"allow"}`: "",
		`{"decision":"allow","result":{"content":[]},"note":"x"}`: "",
		`{"decision":"deny","reason":"no"}`:                       "",
		``:                                                        "not understood",
		`{}`:                                                      `decided ""`,
		`{"decision":"yes"}`:                                      `decided "yes"`,
		`{"decision":"allow","extra":1}`:                          "not understood",
		`{"decision":"allow"} {"decision":"deny"}`: "goes on after its end",
		`{"decision":"allow","arguments":{"a":1}}`: "does not belong to the phase after",
		`[]`: "not understood",
		`{"decision":"allow","reason":"` + strings.Repeat("x", 3<<20) + `"}`: "more than 2097152 bytes",
	} {
		w := asks(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
		_, err := w.Intercept(t.Context(), invocation(intercept.After, `{"content":[{"type":"text","text":"x"}]}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", answer, err, want)
		}
	}
}

// TestStatus: only 200 is an answer, and no redirect is followed.
func TestStatus(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusFound, http.StatusUnauthorized, http.StatusInternalServerError} {
		asked := 0
		w := asks(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		if _, err := w.Intercept(t.Context(), invocation(intercept.Before, `{}`)); err == nil || asked != 1 {
			t.Errorf("%d: %v, asked %d times", status, err, asked)
		}
	}
}
