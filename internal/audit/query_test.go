package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

func TestQuery(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &audit.Record{Seq: 7, Entry: example()}
	r.Event = audit.EventEnd
	for query, want := range map[string]bool{
		"":                          true,
		"decision=deny tool~GITHUB": false,
		"decision=deny tool~create server=github since=24h": true,
		"since=1h":                               false,
		"since=2026-11-21 until=2026-11-22":      true,
		"until=7d":                               false,
		"who=ci tenant!=acme":                    false,
		"group=dev persona=bot plan=team":        true,
		`reason~"5000 of 5000" code!~timeout`:    true,
		"phase=policy rule~rego:31":              true,
		"ms>1 ms<=2ms upstream_ms=1200us":        true,
		"ms>1s":                                  false,
		"budget=team seq>=7 bytes>1000 rounds=1": true,
		`client="an IDE" era=modern trace~4bf9`:  true,
		"event=begin":                            false,
		"outcome!=denied":                        false,
	} {
		q, err := audit.ParseQuery(query, now)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if got := q.Matches(r); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"tol=x":                      `there is no field "tol"; did you mean "tool"?`,
		"whatsoever9=x":              "the fields are event, id,",
		"github":                     `"github" is not a valid term`,
		"=x":                         `"=x" is not a valid term`,
		"tool":                       `"tool" is not a valid term`,
		"tool>x":                     "it is text",
		"ms~1":                       "it is a number",
		"ms=x":                       "it must be a duration",
		"seq=x":                      "it must be a number",
		"since=x":                    "it must be a time ago",
		"since>1h":                   "write since=",
		"tool!>x":                    "the field tool needs one of",
		`tool="x`:                    "the double quote has no end",
		strings.Repeat("seq=1 ", 65): "more than 64 terms",
	} {
		if _, err := audit.ParseQuery(query, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"decision=deny tool~github since=24h", `reason~"a b" ms>=1`, "!", "tool!~", `id="\x00`} {
		f.Add(seed)
	}
	r := &audit.Record{Entry: example()}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := audit.ParseQuery(text, time.Unix(0, 0))
		if (q == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, q, err)
		}
		if q != nil {
			q.Matches(r)
		}
	})
}
