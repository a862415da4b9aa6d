//go:build linux

package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// called is the record of a call of a tool, of which the policy has said something.
func called(id, tool, verdict string, more ...audit.Step) audit.Record {
	steps := append([]audit.Step{{Phase: "opa", Verdict: verdict}}, more...)
	if verdict == "" {
		steps = more
	}
	return audit.Record{Entry: audit.Entry{
		Event: audit.EventEnd, Method: mcp.MethodToolsCall, CallID: id, Time: time.Now().Add(-time.Minute), Server: "s", OriginalName: tool, Name: "s__" + tool, CapabilityID: "cap_1",
		Principal: audit.Principal{Subject: "ann", Tenant: "acme", Groups: []string{"ops"}}, Steps: steps,
	}}
}

// over returns a service over records, with a policy in force.
func over(t *testing.T, files map[string]string, records ...audit.Record) *Service {
	t.Helper()
	keys, err := seal.NewKeyring(seal.Key{ID: "k", Secret: []byte(strings.Repeat("k", 32))})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Keys: keys, Read: func(_ context.Context, _ time.Time, fn func(*audit.Record)) (string, error) {
		for i := range records {
			fn(&records[i])
		}
		return "", nil
	}})
	if files != nil {
		dir := t.TempDir()
		for name, text := range files {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		set := opa.Settings{Path: dir}
		policy, err := opa.New(t.Context(), opa.Options{Settings: set, Data: opa.Data{GlobalToolDeny: []string{"s__banned"}}})
		if err != nil {
			t.Fatal(err)
		}
		s.Use(policy, set, opa.InputLimits{})
	}
	return s
}

// of is a question about one module.
func of(rego string) admin.PolicyReplay {
	return admin.PolicyReplay{Since: time.Now().Add(-time.Hour), Files: []admin.PolicyFile{{Name: "policy.rego", Text: rego}}}
}

// What would be decided otherwise is counted and listed. All else is told apart.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := over(t, map[string]string{"policy.rego": "package toolgate\ndecision := true\n", "lists/data.json": `{"gone":["s__read"]}`},
		called("1", "read", "allow"), called("2", "write", "deny"), called("3", "write", "deny"), called("4", "banned", "allow"), called("5", "other", "allow"),
		called("6", "send", "allow"), called("7", "fine", "allow"), called("8", "never", ""), called("9", "asked", "allow", audit.Step{Phase: "approval", Verdict: "ask"}),
	)
	early := called("0", "read", "allow")
	early.Time = time.Now().Add(-2 * time.Hour)
	got, _, err := s.Replay(t.Context(), of(`package toolgate
default decision := {"allow": true}
decision := {"allow": false, "reason": "gone"} if input.tool_name in data.lists.gone
decision := {"allow": false, "reason": "banned"} if input.tool_name in data.global_tool_deny
decision := {"allow": true, "obligations": {"approval": true}} if input.original_name == "send"
decision := {"allow": to_number("x") == 1} if input.original_name == "other"
`))
	if err != nil {
		t.Fatal(err)
	}
	change := func(id, tool, was, now, reason string) admin.ReplayedCall {
		return admin.ReplayedCall{ID: id, Who: "ann", Tenant: "acme", Tool: "s__" + tool, Was: was, Now: now, Reason: reason}
	}
	want := admin.PolicyReplayed{
		Calls: 9, Same: 1, Undecidable: 1, NotAsked: 1,
		Counts: []admin.PolicyChange{{Was: "allow", Now: "deny", Calls: 2}, {Was: "deny", Now: "allow", Calls: 2}, {Was: "allow", Now: "ask", Calls: 1}, {Was: "allow", Now: "error", Calls: 1}},
		Changed: []admin.ReplayedCall{
			change("6", "send", "allow", "ask", ""), change("5", "other", "allow", "error", "policy_error"), change("4", "banned", "allow", "deny", "banned"),
			change("3", "write", "deny", "allow", ""), change("2", "write", "deny", "allow", ""), change("1", "read", "allow", "deny", "gone"),
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(admin.ReplayedCall{}, "Time")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Arguments leave the gateway only where they were recorded and the policy reads them.
func TestReplayOfArguments(t *testing.T) {
	t.Parallel()
	s := over(t, nil, called("1", "echo", "allow"))
	for name, tt := range map[string]struct {
		rego      string
		arguments bool
		unknown   int
	}{
		"reads none":           {"package toolgate\ndecision := true\n", false, 0},
		"reads them":           {"package toolgate\ndefault decision := true\ndecision := false if input.args.text == \"bad\"\n", true, 1},
		"reads the clock, too": {"package toolgate\ndefault decision := true\ndecision := false if { input.args.text == \"bad\"; time.now_ns() > 0 }\n", false, 1},
	} {
		got, _, err := s.Replay(t.Context(), of(tt.rego))
		if err != nil || got.Arguments != tt.arguments || got.Undecidable != tt.unknown {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// Policies that are made to harm end within the bounds, and the next one is evaluated.
func TestHostilePolicies(t *testing.T) {
	t.Parallel()
	s := over(t, nil, called("1", "read", "allow"), called("2", "write", "deny"))
	head := "package toolgate\n\ndefault decision := true\n\n"
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	var doubled strings.Builder
	for i := range 28 {
		fmt.Fprintf(&doubled, "x%d := concat(\"\", [x%d, x%d])\n", i+1, i, i)
	}
	for name, tt := range map[string]struct {
		rego    string
		problem string // part of one
		bound   string // part of the error
		changed bool   // the verdicts are errors
	}{
		"loops": {rego: head + "decision := false if { some i in numbers.range(1, 30000); some j in numbers.range(1, 30000); i * j < 0 }\n", problem: "took more than"},
		"loops for each call": {
			rego:    head + "decision := false if { input.server != \"probe\"; some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i * j < 0 }\n",
			changed: true,
		},
		"grows exponentially": {
			rego:    head + "decision := false if { a := [0,1,2,3,4,5,6,7,8,9]; a[_]+a[_]+a[_]+a[_]+a[_]+a[_]+a[_]+a[_]+a[_]+a[_] < 0 }\n",
			problem: "took more than",
		},
		"takes memory":                {rego: head + "x0 := \"0123456789abcdef\"\n" + doubled.String() + "decision := false if count(x28) < 0\n", bound: "more than a replay may use"},
		"takes memory by shifts":      {rego: head + "decision := false if bits.lsh(1, 40000000000) < 0\n", bound: ""},
		"takes memory when compiling": {rego: head + "x := " + deep + "\n", problem: ""},
		"sends":                       {rego: head + "decision := false if http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"})\n", problem: "http.send"},
		"looks up":                    {rego: head + "decision := false if net.lookup_ip_addr(\"x\")\n", problem: "net.lookup_ip_addr"},
		"reads the runtime":           {rego: head + "decision := false if opa.runtime().env.HOME\n", problem: "opa.runtime"},
		"reads a schema":              {rego: head + "decision := false if json.match_schema({}, {\"$ref\": \"file:///etc/passwd\"})[0]\n", problem: "json.match_schema"},
		"traces":                      {rego: head + "decision := false if trace(\"x\")\n", problem: "trace"},
		"gambles":                     {rego: head + "decision := false if rand.intn(\"x\", 2) == 1\n", problem: "rand.intn"},
		"recurses":                    {rego: head + "f(x) := f(x + 1)\ndecision := false if f(1)\n", problem: "recursive"},
		"imports what is not there":   {rego: "package toolgate\nimport data.etc.passwd\ndecision := passwd\n", changed: true},
		"is large":                    {rego: head + "# " + strings.Repeat("x", admin.MaxPolicyText), bound: "1024 KiB"},
		"is as large as it may be":    {rego: head + strings.Repeat("x := 1\n", 140_000), problem: ""},
		"is not UTF-8":                {rego: head + "# \xff\n", problem: "not UTF-8"},
		"is empty":                    {rego: "", problem: ""},
		"has a NUL":                   {rego: head + "x := \"\x00\"\n", problem: ""},
		"says nothing":                {rego: "package toolgate\n", problem: "no rule"},
		"says too much":               {rego: head + "decision := {\"allow\": false, \"reason\": concat(\"\", [\"r\" | some i in numbers.range(1, 2000)])} if input.tool_name == \"s__read\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			got, _, err := s.Replay(t.Context(), of(tt.rego))
			t.Logf("%v: %v %.200v", time.Since(began).Round(time.Millisecond), err, got.Problems)
			if took := time.Since(began); took > replayTime+2*endTime {
				t.Errorf("it took %v", took)
			}
			if err != nil && !errors.Is(err, admin.ErrReplayBound) || tt.bound != "" && (err == nil || !strings.Contains(err.Error(), tt.bound)) {
				t.Errorf("error %v", err)
			}
			if said := fmt.Sprint(got.Problems); tt.problem != "" && !strings.Contains(said, tt.problem) {
				t.Errorf("problems %v %+v", said, got)
			}
			if failed := len(got.Counts) == 2 && got.Counts[0].Now == Failed; failed != tt.changed {
				t.Errorf("%+v", got)
			}
			for _, c := range got.Changed {
				if len(c.Reason) > maxReason+len("…") {
					t.Errorf("a reason of %d bytes", len(c.Reason))
				}
			}
		})
	}
	if got, _, err := s.Replay(t.Context(), of("package toolgate\ndecision := true\n")); err != nil || got.Same != 1 || len(got.Changed) != 1 {
		t.Errorf("afterwards: %+v %v", got, err)
	}
}

// One replay goes at a time, and ends with whoever asks for it and with the gateway.
func TestReplayEnds(t *testing.T) {
	t.Parallel()
	const slow = "package toolgate\n\ndefault decision := true\n\ndecision := false if { some i in numbers.range(1, 30000); some j in numbers.range(1, 30000); i * j < 0 }\n"
	s := over(t, nil, called("1", "read", "allow"))
	gateway, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(gateway, t.Context()) }()
	begin := func(ctx context.Context) chan error {
		done, reading := make(chan error, 1), make(chan struct{})
		read := s.o.Read
		s.o.Read = func(ctx context.Context, since time.Time, fn func(*audit.Record)) (string, error) {
			close(reading)
			return read(ctx, since, fn)
		}
		go func() { _, _, err := s.Replay(ctx, of(slow)); done <- err }()
		<-reading
		s.o.Read = read
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := begin(ctx)
	if _, _, err := s.Replay(t.Context(), of(slow)); !errors.Is(err, admin.ErrReplayBusy) {
		t.Errorf("a second one: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %v", err)
	}
	second := begin(t.Context())
	end()
	if err := <-second; !errors.Is(err, errEnding) {
		t.Errorf("at the end of the gateway: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, _, err := s.Replay(t.Context(), of(slow)); !errors.Is(err, admin.ErrReplayBusy) {
		t.Errorf("after the end of the gateway: %v", err)
	}
}

// Of many calls the last ones are decided, and of large ones as many as may be carried.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	var many recordedCalls
	for i := range admin.MaxReplayed + 5 {
		r := called(fmt.Sprint(i), "read", "allow")
		many.add(&r)
	}
	if many.calls != admin.MaxReplayed+5 || many.leftOut != 5 || len(many.asked) != admin.MaxReplayed || many.asked[0].id != "5" {
		t.Errorf("%d calls, %d left out, the first is %s", many.calls, many.leftOut, many.asked[0].id)
	}
	var large recordedCalls
	for i := range 20 {
		r := called(fmt.Sprint(i), "read", "allow")
		r.Inputs = strings.Repeat("x", 1<<20)
		large.add(&r)
	}
	if len(large.asked) != 15 || large.leftOut != 5 || large.carried > maxCarried || large.asked[0].id != "5" {
		t.Errorf("%d calls with %d bytes, %d left out", len(large.asked), large.carried, large.leftOut)
	}
	calls, verdicts := make([]recorded, 2*admin.MaxReplayChanges), make([]Verdict, 2*admin.MaxReplayChanges)
	for i := range calls {
		calls[i].was, verdicts[i].Now = "allow", "deny"
	}
	var got admin.PolicyReplayed
	if tally(&got, calls, verdicts); len(got.Changed) != admin.MaxReplayChanges || got.Counts[0].Calls != len(calls) {
		t.Errorf("%d of %+v", len(got.Changed), got.Counts)
	}
}

// A process that says what it may not say is not believed.
func TestAnswersOfAProcess(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"nothing": {}, "no JSON": {"x"}, "another message": {`{"x":1}`}, "no verdicts": {`{"arguments":false}`},
		"a verdict of its own": {`{"arguments":false}`, `{"now":"<b>allow</b>"}`}, "a verdict about more": {`{"arguments":false}`, `{"now":"deny","id":"other"}`},
		"a line without an end": {`{"arguments":false}`, `{"now":"deny","reason":"` + strings.Repeat("x", maxAnswer) + `"}`},
	} {
		c := &confined{in: discard{}, out: bufio.NewScanner(strings.NewReader(strings.Join(lines, "\n")))}
		c.out.Buffer(nil, maxAnswer)
		var ready readyMessage
		if _, err := c.evaluate(&policyMessage{}, &ready, make([]recorded, 1), nil); err == nil {
			t.Errorf("%s: believed", name)
		}
	}
}

// What ends a process is said without its words.
func TestWhyAProcessEnded(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, tt := range []struct {
		ctx         context.Context
		words, says string
	}{
		{late, "", "not evaluated within 10s"},
		{t.Context(), "context deadline exceeded", "not evaluated within 10s"},
		{t.Context(), "runtime: out of memory: cannot allocate 5003804672-byte block", "MiB of memory"},
		{t.Context(), "fatal error: runtime: cannot allocate memory", "MiB of memory"},
		{t.Context(), "fatal error: out of memory allocating heap arena metadata", "MiB of memory"},
		{t.Context(), "runtime: goroutine stack exceeds 67108864-byte limit", "too deeply"},
		{t.Context(), "words of the policy", "has ended early"},
	} {
		if err := why(tt.ctx, []byte(tt.words)); !errors.Is(err, admin.ErrReplayBound) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "words") {
			t.Errorf("%q: %v", tt.words, err)
		}
	}
}

// discard takes what is sent to no process.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
