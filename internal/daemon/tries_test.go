//go:build !windows

package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/admin/admintest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// formSchema is what the tool echo takes in these tests.
const formSchema = `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"tags":{"type":"array","items":{"type":"string"}}},"required":["n"],"additionalProperties":false}`

// over waits until a call by hand is over, or asks.
func (r *running) over(t *testing.T, by admin.Trier, id string) admin.Try {
	t.Helper()
	one := admin.Try{Revision: -1}
	testwait.Until(t, patience, "the call ends or asks", func() bool {
		var err error
		if one, err = r.TriedCall(t.Context(), by, id, -1); err != nil {
			t.Fatal(err)
		}
		return one.State != admin.TryRuns
	})
	return one
}

// A call by hand is one of its caller's, whole and audited; others do not see it, nor does
// another session.
func TestTryCalls(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("schema=" + formSchema)}, nil)
	r := l.r
	alice := admin.Trier{Session: "s", Key: "alice"}
	all, err := r.TryTools(t.Context(), alice)
	if err != nil || !slices.ContainsFunc(all, func(one admin.TryTool) bool { return one.Name == "a__echo" }) {
		t.Fatal(all, err)
	}
	one, err := r.TryTool(t.Context(), alice, "a__echo")
	if err != nil || !strings.Contains(string(one.Definition), `"minimum":1`) {
		t.Fatalf("%s %v", one.Definition, err)
	}
	// What does not fit is not sent.
	for args, want := range map[string]string{
		`{"n":0}`: "/n", `{}`: "", `{"n":1,"m":2}`: "", `{"n":"x","tags":[1]}`: "/n", `[1]`: "", `{`: "", `{"n":1,"n":2}`: "",
	} {
		_, err := r.Try(t.Context(), alice, admin.NewTry{Tool: "a__echo", Arguments: json.RawMessage(args)})
		problems, ok := errors.AsType[*admin.TryProblems](err)
		if !ok || len(problems.Problems) == 0 || problems.Problems[0].Pointer != want {
			t.Errorf("%s: %v %+v, want a problem at %q", args, err, problems, want)
		}
	}
	if found, err := r.Tried(t.Context(), alice); err != nil || len(found) != 0 {
		t.Errorf("something was sent: %+v %v", found, err)
	}
	begun, err := r.Try(t.Context(), alice, admin.NewTry{Tool: "a__echo", Arguments: json.RawMessage("{\"n\": 7,\n\"tags\":[\"ü\"]}")})
	if err != nil {
		t.Fatal(err)
	}
	done := r.over(t, alice, begun.ID)
	if done.State != admin.TryOver || done.Outcome != admin.TryDone || len(done.Messages) != 2 {
		t.Fatalf("%+v", done)
	}
	sent, got := done.Messages[0], done.Messages[1]
	if !sent.Sent || got.Sent || sent.Bytes != len(sent.Text) || !json.Valid([]byte(sent.Text)) || !strings.Contains(sent.Text, `"n": 7`) || !strings.Contains(got.Text, `\"n\"`) {
		t.Errorf("%+v", done.Messages)
	}
	// The gate itself refuses what is sent unchecked, and that is no result.
	begun, err = r.Try(t.Context(), alice, admin.NewTry{Tool: "a__echo", Arguments: json.RawMessage(`{"n":0}`), Unchecked: true})
	if err != nil {
		t.Fatal(err)
	}
	if refused := r.over(t, alice, begun.ID); refused.Outcome != admin.TryRefused {
		t.Errorf("%+v", refused)
	}
	calls := func() (all []admin.Call) {
		all, err := r.Calls(t.Context(), admin.CallQuery{Tool: "a__echo"})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	testwait.Until(t, patience, "both calls are in the log", func() bool { return len(calls()) == 2 })
	entry, err := r.ShowAudit(t.Context(), calls()[1].ID)
	if last := entry.Entries[len(entry.Entries)-1]; err != nil || last.Principal.Subject != "alice" {
		t.Errorf("the audit log has %+v %v", last.Principal, err)
	}
	// For everybody else the call does not exist.
	for _, other := range []admin.Trier{{Session: "s", Key: "bob"}, {Session: "other", Key: "alice"}} {
		_, missing := r.TriedCall(t.Context(), other, "try_none", -1)
		for what, err := range map[string]error{
			"seen":      func() error { _, err := r.TriedCall(t.Context(), other, begun.ID, -1); return err }(),
			"cancelled": r.CancelTry(t.Context(), other, begun.ID),
			"answered":  r.AnswerTry(t.Context(), other, begun.ID, admin.TryAnswer{}),
		} {
			if !errors.Is(err, admin.ErrNoTry) || err.Error() != missing.Error() {
				t.Errorf("%+v: %s: %v", other, what, err)
			}
		}
		if found, err := r.Tried(t.Context(), other); err != nil || len(found) != 0 {
			t.Errorf("%+v sees %+v %v", other, found, err)
		}
	}
	if found, err := r.Tried(t.Context(), alice); err != nil || len(found) != 2 || found[1].ID != done.ID || found[1].Messages != nil {
		t.Errorf("%+v %v", found, err)
	}
	// An operator is no caller here, and nobody has a wrong key.
	for _, by := range []admin.Trier{{Session: "s"}, {Session: "s", Key: "wrong"}} {
		if _, err := r.TryTools(t.Context(), by); !errors.Is(err, admin.ErrTryAs) {
			t.Errorf("%+v: %v", by, err)
		}
	}
}

// What a tool asks is answered in the call. An answer that does not fit is not sent.
func TestTryAsks(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake(`asks={"type":"object","properties":{"day":{"type":"string","format":"date"}},"required":["day"]}`)}, nil)
	r, by := l.r, admin.Trier{Session: "s", Key: "alice"}
	begin := func() admin.Try {
		t.Helper()
		begun, err := r.Try(t.Context(), by, admin.NewTry{Tool: "a__ask"})
		if err != nil {
			t.Fatal(err)
		}
		asks := r.over(t, by, begun.ID)
		if asks.State != admin.TryAsks || len(asks.Questions) != 1 || asks.Round != 1 {
			t.Fatalf("%+v", asks)
		}
		return asks
	}
	answer := func(asks *admin.Try, round int, text string) error {
		return r.AnswerTry(t.Context(), by, asks.ID, admin.TryAnswer{Round: round, Answers: map[string]json.RawMessage{asks.Questions[0].Key: json.RawMessage(text)}})
	}
	asks := begin()
	for text, want := range map[string]string{
		`{"action":"accept","content":{"day":"tomorrow"}}`: "/day", `{"action":"accept","content":{}}`: "", `{"action":"perhaps"}`: "", `[]`: "", ``: "", `{"action":"accept"}`: "",
	} {
		problems, ok := errors.AsType[*admin.TryProblems](answer(&asks, 1, text))
		if !ok || len(problems.Problems) == 0 || !strings.HasSuffix(problems.Problems[0].Pointer, want) {
			t.Errorf("%s: %+v", text, problems)
		}
	}
	if err := answer(&asks, 2, `{"action":"decline"}`); !errors.Is(err, admin.ErrTryRound) {
		t.Errorf("another round: %v", err)
	}
	if err := answer(&asks, 1, `{"action":"accept","content":{"day":"2026-11-28"}}`); err != nil {
		t.Fatal(err)
	}
	done := r.over(t, by, asks.ID)
	if done.Outcome != admin.TryDone || len(done.Questions) != 0 || !strings.Contains(done.Messages[len(done.Messages)-1].Text, "2026-11-28") {
		t.Errorf("%+v", done)
	}
	if err := answer(&asks, 1, `{"action":"decline"}`); !errors.Is(err, admin.ErrTryRound) {
		t.Errorf("answered twice: %v", err)
	}
	asks = begin()
	if err := r.CancelTry(t.Context(), by, asks.ID); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the call is cancelled", func() bool {
		one, err := r.TriedCall(t.Context(), by, asks.ID, -1)
		return err == nil && one.Outcome == admin.TryCancelled
	})
}

// Calls are bounded for a session, end with it, and end when their caller is not known any
// more.
func TestTryIsBounded(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	r := l.r
	slow := func(by admin.Trier, n int) (admin.Try, error) {
		args, err := json.Marshal(map[string]string{"File": l.dir + fmt.Sprint("/begun", by.Session, n), "Wait": l.dir + "/never"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Try(t.Context(), by, admin.NewTry{Tool: "a__slow", Arguments: args})
	}
	alice := admin.Trier{Session: "s", Key: "alice"}
	first, err := slow(alice, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if _, err := slow(alice, 1+n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := slow(alice, 9); !errors.Is(err, admin.ErrTryBusy) {
		t.Errorf("one too many: %v", err)
	}
	for n := range 4 { // the bound of one caller, in another session
		if _, err := slow(admin.Trier{Session: "other", Key: "alice"}, n); err != nil {
			t.Fatal(err)
		}
	}
	third := admin.Trier{Session: "third", Key: "alice"}
	if _, err := slow(third, 0); !errors.Is(err, admin.ErrTryBusy) {
		t.Errorf("a caller with many sessions: %v", err)
	}
	if _, err := slow(admin.Trier{Session: "third", Key: "bob"}, 0); err != nil {
		t.Errorf("another caller: %v", err)
	}
	r.EndTries(admin.Trier{Session: "other"})
	r.EndTries(admin.Trier{Session: "third"})
	testwait.Until(t, patience, "the call is at its server", func() bool { _, err := os.Stat(l.dir + "/beguns0"); return err == nil })
	if err := r.CancelTry(t.Context(), alice, first.ID); err != nil {
		t.Fatal(err)
	}
	if over := r.over(t, alice, first.ID); over.Outcome != admin.TryCancelled || !strings.Contains(over.Messages[1].Text, "notifications/cancelled") {
		t.Errorf("%+v", over)
	}
	for n := range 25 { // over, and kept in place of the oldest
		begun, err := r.Try(t.Context(), alice, admin.NewTry{Tool: "a__pid"})
		if err != nil {
			t.Fatal(n, err)
		}
		r.over(t, alice, begun.ID)
	}
	all, err := r.Tried(t.Context(), alice)
	if err != nil || len(all) != 20 {
		t.Fatalf("%d calls are kept: %v", len(all), err)
	}
	large := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", admin.MaxTryArguments))
	if _, err := r.Try(t.Context(), alice, admin.NewTry{Tool: "a__echo", Arguments: json.RawMessage(large)}); !errors.Is(err, admin.ErrTryLarge) {
		t.Errorf("arguments of 1 MiB: %v", err)
	}
	// What is shown of a long message is cut, with its length said.
	half := fmt.Sprintf(`{"x":%q}`, strings.Repeat("ü", admin.MaxTryArguments/4))
	begun, err := r.Try(t.Context(), alice, admin.NewTry{Tool: "a__echo", Arguments: json.RawMessage(half)})
	if err != nil {
		t.Fatal(err)
	}
	over := r.over(t, alice, begun.ID)
	if m := over.Messages[1]; over.Outcome != admin.TryDone || m.Bytes < len(half) || len(m.Text) > 64<<10 || !strings.HasSuffix(m.Text, "ü") || over.Arguments != nil {
		t.Errorf("%s: %d of %d bytes", over.Outcome, len(m.Text), m.Bytes)
	}
	r.EndTries(alice)
	if all, err := r.Tried(t.Context(), alice); err != nil || len(all) != 0 {
		t.Errorf("%d calls are left: %v", len(all), err)
	}
}

// A call ends when its caller is not let in any more.
func TestTryEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	ask := servers{"a": fake(`asks={"type":"object"}`)}
	h.write(t, ask, withKeys("alice", "bob"))
	r := h.newRunning(t)
	alice, err := r.Identities.Identity(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	by := admin.Trier{Session: "s"}
	calls := r.Tries(alice)
	begun, err := calls.Try(t.Context(), by, admin.NewTry{Tool: "a__ask"})
	if err != nil {
		t.Fatal(err)
	}
	r.over(t, admin.Trier{Session: "s", Key: "alice"}, begun.ID)
	h.write(t, ask, withKeys("bob"))
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the call ends", func() bool {
		one, err := calls.TriedCall(t.Context(), by, begun.ID, -1)
		if err != nil {
			t.Fatal(err)
		}
		return one.Outcome == admin.TryCancelled
	})
}

// A call ends with the session that it was made in, and one that comes when that has ended is
// not made.
func TestTryEndsWithItsSession(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake(`asks={"type":"object"}`)}, nil)
	var lasts atomic.Bool
	lasts.Store(true)
	by := admin.Trier{Session: "s", Key: "alice", Lasts: lasts.Load}
	begun, err := l.r.Try(t.Context(), by, admin.NewTry{Tool: "a__ask"})
	if err != nil {
		t.Fatal(err)
	}
	if asks := l.r.over(t, by, begun.ID); asks.State != admin.TryAsks {
		t.Fatalf("%+v", asks)
	}
	lasts.Store(false)
	late, err := l.r.Try(t.Context(), by, admin.NewTry{Tool: "a__pid"})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{begun.ID, late.ID} {
		testwait.Until(t, patience, "the call ends", func() bool {
			one, err := l.r.TriedCall(t.Context(), by, id, -1)
			return err == nil && one.Outcome == admin.TryCancelled
		})
	}
}

// The control socket has calls by hand, and other listeners do not.
func TestTriesOverHTTP(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("schema=" + formSchema)}, nil)
	handler := admintest.Check(t, admin.Handler(l.r.Control, "token"), http.Header{"Toolgate-Token": {"token"}})
	do := func(h http.Handler, method, path, body, key string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Toolgate-Token", "token")
		r.Header.Set("Toolgate-Api-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	status, text := do(handler, http.MethodPost, "/v1/tries?session=p", `{"tool":"a__echo","arguments":{"n":4}}`, "alice")
	var begun admin.Try
	if err := json.Unmarshal([]byte(text), &begun); status != http.StatusOK || err != nil || begun.ID == "" {
		t.Fatal(status, text, err)
	}
	one := "/v1/tries/" + begun.ID
	testwait.Until(t, patience, "the call is over", func() bool {
		_, text = do(handler, http.MethodGet, one+"?session=p&after=1", "", "alice")
		return strings.Contains(text, `"outcome":"done"`)
	})
	for name, tt := range map[string]struct {
		method, path, body, key string
		status                  int
		has                     string
	}{
		"the tools":         {http.MethodGet, "/v1/tries/tools", "", "alice", http.StatusOK, `"name":"a__echo"`},
		"a tool":            {http.MethodGet, "/v1/tries/tool?name=a__echo", "", "alice", http.StatusOK, `"inputSchema"`},
		"no such tool":      {http.MethodGet, "/v1/tries/tool?name=a__none", "", "alice", http.StatusNotFound, ""},
		"the history":       {http.MethodGet, "/v1/tries?session=p", "", "alice", http.StatusOK, begun.ID},
		"another session's": {http.MethodGet, one, "", "alice", http.StatusNotFound, ""},
		"another caller's":  {http.MethodGet, one + "?session=p", "", "bob", http.StatusNotFound, ""},
		"no caller":         {http.MethodGet, one + "?session=p", "", "", http.StatusForbidden, ""},
		"what does not fit": {http.MethodPost, "/v1/tries", `{"tool":"a__echo","arguments":{"n":0}}`, "alice", http.StatusUnprocessableEntity, `"pointer":"/n"`},
		"what is no call":   {http.MethodPost, "/v1/tries", `{"tools":1}`, "alice", http.StatusBadRequest, ""},
		"a bad revision":    {http.MethodGet, one + "?session=p&after=x", "", "alice", http.StatusBadRequest, ""},
		"a late answer":     {http.MethodPost, one + "/answer?session=p", `{"round":1,"answers":{}}`, "alice", http.StatusConflict, ""},
		"a late cancel":     {http.MethodPost, one + "/cancel?session=p", "", "alice", http.StatusOK, ""},
	} {
		if status, text := do(handler, tt.method, tt.path, tt.body, tt.key); status != tt.status || !strings.Contains(text, tt.has) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if status, _ := do(admin.Remote(handler), tt.method, tt.path, tt.body, tt.key); status != http.StatusNotFound {
			t.Errorf("%s from another machine: %d", name, status)
		}
	}
}
