//go:build e2e && !windows

package cli

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

func (h *home) policy(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(h.path("policies/p.rego"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	hookSecret  = "0123456789abcdef0123456789abcdef"
	leadsPolicy = `package toolgate

decision := {"allow": true, "obligations": {"approval": {"by": ["leads"]}}} if input.action == "tool.request"

else := true
`
)

// hookSignature is made as the documentation says, by other code than the gateway's.
func hookSignature(secret string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(h.Sum(nil)))
}

// hooked is a gateway whose calls wait for the answer of a webhook's receiver.
type hooked struct {
	*home
	url       string
	client    *http.Client
	questions chan approval.Item
}

func newHooked(t *testing.T) *hooked {
	t.Helper()
	a := &hooked{home: newHome(t), client: newClient(t), questions: make(chan approval.Item, 16)}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var item approval.Item
		if err == nil {
			err = json.Unmarshal(body, &item)
		}
		got := r.Header.Get(approval.SignatureHeader)
		var at int64
		if _, scanned := fmt.Sscanf(got, "t=%d,", &at); err != nil || scanned != nil || got != hookSignature(hookSecret, time.Unix(at, 0), body) {
			t.Errorf("a question %s signed %q: %v, %v", body, got, err, scanned)
		}
		a.questions <- item
	}))
	t.Cleanup(hook.Close)
	if err := os.Mkdir(a.path("policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.policy(t, leadsPolicy)
	a.configure(t, hook.URL, map[string]any{"wait": "25s"})
	a.keep(t, "go", "", 0o600) // so that no call stays at the server
	_, a.url = a.up(t)
	a.env["TOOLGATE_API_KEY"] = "bob"
	return a
}

func (a *hooked) configure(t *testing.T, hook string, approvals map[string]any) {
	t.Helper()
	approvals["ask"], approvals["webhook"] = []string{"webhook"}, map[string]any{"url": hook, "secret": "${HOOK_SECRET}"}
	a.env["HOOK_SECRET"], a.env["HOOK"] = hookSecret, hook
	a.write(t, servers{"a": fake()}, map[string]any{
		"auth":      map[string]any{"keys": []any{map[string]any{"id": "bob", "sha256": sum("bob"), "subject": "bob", "tenant": "acme"}}},
		"opa":       map[string]any{"path": a.path("policies")},
		"approvals": approvals,
	})
}

// call makes a call that leaves a file where it is made, and hands over its answer.
func (a *hooked) call(t *testing.T, file string) chan string {
	t.Helper()
	answer := make(chan string, 1)
	params := fmt.Sprintf(`"name":"a__slow","arguments":{"file":%q,"wait":%q},`, a.path(file), a.path("go"))
	go func() { // ends with the call
		_, body := post(t, a.client, a.url, "bob", mcp.MethodToolsCall, "a__slow", params)
		answer <- string(body)
	}()
	return answer
}

func (a *hooked) question(t *testing.T) approval.Item {
	t.Helper()
	select {
	case item := <-a.questions:
		return item
	case <-time.After(patience):
		t.Fatal("the receiver was asked nothing")
		return approval.Item{}
	}
}

func answered(t *testing.T, answer <-chan string) string {
	t.Helper()
	select {
	case text := <-answer:
		return text
	case <-time.After(patience):
		t.Fatal("the call was not answered")
		return ""
	}
}

// decision is what a receiver answers.
func decision(id, verdict, tenant, group string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"decision":%q,"subject":"erin","tenant":%q,"groups":[%q],"reason":"seen"}`, id, verdict, tenant, group)
}

// deliver posts an answer, and returns the status.
func (a *hooked) deliver(t *testing.T, id string, body []byte, signature string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+approval.CallbackPath+id, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if signature != "" {
		r.Header.Set(approval.SignatureHeader, signature)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// requireNotMade sees to it that a call has not been made, and that its question
// is in a state.
func (a *hooked) requireNotMade(t *testing.T, what, file, id, state string) {
	t.Helper()
	if _, err := os.Stat(a.path(file)); err == nil {
		t.Errorf("%s: the call was made", what)
	}
	if names := a.ok(t, "approvals", "ls", "--state", state, "-o", "name", "--file", a.file); !slices.Contains(strings.Fields(names), id) {
		t.Errorf("%s: %s is not among what is %s: %q", what, id, state, names)
	}
}

// A call waits for the receiver of the webhook and for nobody else: what is not
// signed with the secret, now, by somebody who may answer, leaves it waiting.
func TestApprovalByWebhook(t *testing.T) {
	t.Parallel()
	a := newHooked(t)
	call := a.call(t, "first")
	q := a.question(t)
	if q.Tool != "a__slow" || q.Tenant != "acme" || q.Subject != "bob" || !strings.Contains(q.Arguments, "first") {
		t.Errorf("the question: %+v", q)
	}
	now := time.Now()
	good := decision(q.ID, "approve", "acme", "leads")
	foreign, grouped := decision(q.ID, "approve", "other", "leads"), decision(q.ID, "approve", "acme", "sales")
	for _, bad := range []struct {
		what, id  string
		body      []byte
		signature string
		status    int
	}{
		{"no signature", q.ID, good, "", http.StatusUnauthorized},
		{"another secret", q.ID, good, hookSignature(strings.Repeat("x", 32), now, good), http.StatusUnauthorized},
		{"a changed body", q.ID, good, hookSignature(hookSecret, now, grouped), http.StatusUnauthorized},
		{"an expired signature", q.ID, good, hookSignature(hookSecret, now.Add(-6*time.Minute), good), http.StatusUnauthorized},
		{"a signature of the future", q.ID, good, hookSignature(hookSecret, now.Add(6*time.Minute), good), http.StatusUnauthorized},
		{"another tenant", q.ID, foreign, hookSignature(hookSecret, now, foreign), http.StatusForbidden},
		{"another group", q.ID, grouped, hookSignature(hookSecret, now, grouped), http.StatusForbidden},
	} {
		if status := a.deliver(t, bad.id, bad.body, bad.signature); status != bad.status {
			t.Errorf("%s: %d, want %d", bad.what, status, bad.status)
		}
		a.requireNotMade(t, bad.what, "first", q.ID, "pending")
	}
	select {
	case text := <-call:
		t.Fatalf("the call did not wait: %s", text)
	default:
	}

	signature := hookSignature(hookSecret, time.Now(), good)
	if status := a.deliver(t, q.ID, good, signature); status != http.StatusOK {
		t.Fatalf("the answer: %d", status)
	}
	if text := answered(t, call); !strings.Contains(text, "waited") {
		t.Errorf("the call: %s", text)
	}
	if _, err := os.Stat(a.path("first")); err != nil {
		t.Errorf("the call was not made: %v", err)
	}

	// The same answer again lets nothing through, neither there nor elsewhere.
	if err := os.Remove(a.path("first")); err != nil {
		t.Fatal(err)
	}
	call = a.call(t, "first")
	again := a.question(t)
	if again.ID == q.ID {
		t.Errorf("%s was asked twice", q.ID)
	}
	for id, want := range map[string]int{q.ID: http.StatusConflict, again.ID: http.StatusBadRequest} {
		if status := a.deliver(t, id, good, signature); status != want {
			t.Errorf("replayed to %s: %d, want %d", id, status, want)
		}
		a.requireNotMade(t, "replayed", "first", again.ID, "pending")
	}
	no := decision(again.ID, "deny", "acme", "leads")
	if status := a.deliver(t, again.ID, no, hookSignature(hookSecret, time.Now(), no)); status != http.StatusOK {
		t.Errorf("the denial: %d", status)
	}
	if text := answered(t, call); !strings.Contains(text, "approval_denied") {
		t.Errorf("the denied call: %s", text)
	}
	a.requireNotMade(t, "denied", "first", again.ID, "denied")

	a.requireAudited(t, q.ID, again.ID)
}

// requireAudited sees to it that the audit log tells who let a call be made and who
// denied one, and of answers that did not count, but not of what nobody signed.
func (a *hooked) requireAudited(t *testing.T, granted, denied string) {
	t.Helper()
	var told []string
	testwait.Until(t, patience, "the audit log tells of the denial", func() bool {
		told = nil
		for _, e := range a.entries(t) {
			if method, _ := e["method"].(string); strings.HasPrefix(method, "toolgate/approvals.") {
				who, _ := e["principal"].(map[string]any)
				told = append(told, fmt.Sprint(strings.TrimPrefix(method, "toolgate/approvals."), " ", e["name"], " ", who["issuer"], " ", who["tenant"], " ", who["subject"], " ", e["outcome"]))
			}
		}
		return slices.ContainsFunc(told, func(line string) bool { return strings.HasPrefix(line, "deny ") })
	})
	want := []string{
		"grant " + granted + " webhook other erin error",
		"grant " + granted + " webhook acme erin error",
		"grant a__slow " + granted + " webhook acme erin ok",
		"grant a__slow " + granted + " webhook acme erin error", // replayed
		"deny a__slow " + denied + " webhook acme erin ok",
	}
	if !slices.Equal(told, want) {
		t.Errorf("the audit log tells of\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

// An answer that comes when its question has expired lets nothing through, and what
// asks again is asked about anew.
func TestApprovalByWebhookTooLate(t *testing.T) {
	t.Parallel()
	a := newHooked(t)
	a.configure(t, a.env["HOOK"], map[string]any{"wait": "25s", "valid": "1s"})
	a.ok(t, "reload", a.file)
	call := a.call(t, "late")
	q := a.question(t)
	if text := answered(t, call); !strings.Contains(text, "Nobody answered in time") {
		t.Errorf("the call whose question expired: %s", text)
	}
	testwait.Until(t, patience, "the question has expired", func() bool { return time.Now().After(q.ExpiresAt) })
	body := decision(q.ID, "approve", "acme", "leads")
	if status := a.deliver(t, q.ID, body, hookSignature(hookSecret, time.Now(), body)); status != http.StatusConflict {
		t.Errorf("an answer that came too late: %d", status)
	}
	a.requireNotMade(t, "too late", "late", q.ID, "expired")
	call = a.call(t, "late")
	if next := a.question(t); next.ID == q.ID {
		t.Errorf("%s was asked again", q.ID)
	}
	if text := answered(t, call); !strings.Contains(text, "Nobody answered in time") {
		t.Errorf("the next call: %s", text)
	}
	if _, err := os.Stat(a.path("late")); err == nil {
		t.Error("the call was made")
	}
}
