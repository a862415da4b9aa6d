package audit_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/audit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example is an entry with a value in every field.
func example() audit.Entry {
	return audit.Entry{
		Time:            time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.FixedZone("CET", 3600)),
		CallID:          "01k7c3v0x2",
		Principal:       audit.Principal{Issuer: "https://id.example", Tenant: "acme", Subject: "ci", Persona: "bot", Groups: []string{"dev", "a \"group\""}, Plan: "team"},
		Session:         "sha256:5f1d",
		Client:          audit.Client{Name: "an IDE", Version: "1.2.3"},
		Transport:       "http",
		Era:             "modern",
		ProtocolVersion: "2026-07-28",
		Method:          "tools/call",
		Kind:            "tool",
		Name:            "gh__create_issue",
		Server:          "github",
		OriginalName:    "create_issue",
		CapabilityID:    "cap_abcdefghijklmnopqrstuvwxyz",
		ArgsHash:        "sha256:9b74",
		Fields:          audit.Fields{{Pointer: "/owner", Value: "acme"}, {Pointer: "/labels", Value: `["bug"]`}},
		Steps: []audit.Step{
			{Phase: "capsule", Verdict: "allow", US: 12},
			{Phase: "policy", Verdict: "deny", Rule: "tools.rego:31", Revision: "7f21", US: 90},
		},
		Inputs: "local.c2VhbGVk",
		Rounds: 1,
		Budgets: []audit.Budget{
			{Name: "plan", Key: "tenant:acme", Unit: "calls", Amount: 1, Used: 4998, Limit: 5000},
			{Name: "team", Key: "persona:acme/bot", Unit: "bytes", Amount: 12345, Used: math.MaxInt64, Limit: -1},
		},
		Breaker:    "closed",
		Outcome:    audit.OutcomeDenied,
		Code:       "budget_exhausted",
		Reason:     "budget \"team\": 5000 of 5000 calls used",
		DurationUS: 1500,
		GatewayUS:  300,
		UpstreamUS: 1200,
		BytesIn:    256,
		BytesOut:   math.MaxInt64,
		TraceID:    "4bf92f3577b34da6a3ce929d0e0e4736",
	}
}

// reference encodes e with the standard library.
func reference(t testing.TB, e audit.Entry) string {
	t.Helper()
	e.Time = e.Time.UTC()
	if e.Event == "" {
		e.Event = audit.EventEnd
	}
	if e.Budgets == nil {
		e.Budgets = []audit.Budget{} // a list in any case
	}
	if e.Shown == nil {
		e.Shown = []string{}
	}
	if e.Principal.Groups == nil {
		e.Principal.Groups = []string{}
	}
	if e.Steps == nil {
		e.Steps = []audit.Step{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEntryIsWrittenAsAlways(t *testing.T) {
	e := example()
	got := audit.AppendEntry(nil, &e)
	got = audit.AppendEntry(got, &audit.Entry{})
	golden := filepath.Join("testdata", "entries.jsonl")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(reference(t, e)+reference(t, audit.Entry{}), string(got)); diff != "" {
		t.Errorf("lines (-encoding/json +got):\n%s", diff)
	}
}

func TestLongStringsAreCut(t *testing.T) {
	const mark = "…"
	for name, tc := range map[string]struct{ in, want string }{
		"at the limit":      {strings.Repeat("a", audit.MaxString), strings.Repeat("a", audit.MaxString)},
		"one above":         {strings.Repeat("a", audit.MaxString+1), strings.Repeat("a", audit.MaxString) + mark},
		"inside a rune":     {strings.Repeat("a", audit.MaxString-1) + "€uro", strings.Repeat("a", audit.MaxString-1) + mark},
		"at the rune's end": {strings.Repeat("a", audit.MaxString-3) + "€uro", strings.Repeat("a", audit.MaxString-3) + "€" + mark},
		"no runes at all":   {strings.Repeat("\x80", audit.MaxString+1), strings.Repeat("\ufffd", audit.MaxString) + mark},
	} {
		var got audit.Entry
		if err := json.Unmarshal(audit.AppendEntry(nil, &audit.Entry{Name: tc.in}), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.Name != tc.want {
			t.Errorf("%s: %d bytes ending in %q, want %d ending in %q", name, len(got.Name), tail(got.Name), len(tc.want), tail(tc.want))
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-8):] }

func FuzzEncode(f *testing.F) {
	f.Add("plain", "", int64(0), int64(0))
	f.Add("quote \" slash \\ / control \x00\x01\x1f\x7f\b\f\n\r\t", "<script>&amp;", int64(-1), int64(math.MaxInt64))
	f.Add("bad \xff\xc3\x28\xed\xa0\x80 utf-8", "\u2028\u2029\ufffd\U0010ffff", int64(1763719200123456789), int64(math.MinInt64))
	f.Add(strings.Repeat("€", 1500), strings.Repeat("\xf0\x9f", 3000), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, a, b string, nanos, n int64) {
		e := audit.Entry{
			Time: time.Unix(0, nanos), CallID: a, Session: b, Method: a, Name: b, Code: a, Reason: b, TraceID: a + b,
			Principal: audit.Principal{Issuer: a, Tenant: b, Subject: a, Groups: []string{b}},
			Fields:    audit.Fields{{Pointer: a, Value: b}}, Steps: []audit.Step{{Phase: a, Rule: b, US: n}}, Client: audit.Client{Name: b, Version: a},
			Outcome: audit.Outcome(b), Rounds: int(int32(n)), Budgets: []audit.Budget{{Name: a, Key: b, Unit: a, Amount: n, Used: -n}}, DurationUS: n, BytesOut: -n,
		}
		line := audit.AppendEntry(nil, &e)
		if !json.Valid(line) || !utf8.Valid(line) {
			t.Fatalf("not JSON: %q", line)
		}
		if i := bytes.IndexByte(line, '\n'); i != len(line)-1 {
			t.Fatalf("not one line: %q", line)
		}
		if len(a)+len(b) > audit.MaxString {
			return // cut, which the standard library does not do
		}
		if want := reference(t, e); string(line) != want {
			t.Fatalf("got  %swant %s", line, want)
		}
	})
}

// Sealed arguments are written whole or not at all: a part could not be opened.
func TestInputsAreWhole(t *testing.T) {
	const most = 256 << 10
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(path, audit.Options{Key: audit.Key{ID: "k", Secret: bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{0, 1, 4096, 4097, most, most + 1}
	for _, n := range sizes {
		if err := l.Append(&audit.Entry{Inputs: strings.Repeat("s", n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := audit.Closed(path)
	if err != nil || len(got) != len(sizes) {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	for i, n := range sizes {
		if n > most {
			n = 0
		}
		if len(got[i].Inputs) != n {
			t.Errorf("of %d bytes %d are kept", sizes[i], len(got[i].Inputs))
		}
	}
}
