package elicitation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/elicitation"
)

// ask puts a question to somebody who types these lines, and returns the answer and what
// was shown.
func ask(t *testing.T, params, typed string) (answer, shown string) {
	t.Helper()
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format, args...) }
	p := elicitation.New(strings.NewReader(typed), say, func() int { return 60 })
	got, err := p.Ask(t.Context(), "a__t", []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(got) {
		t.Errorf("%s is not JSON", got)
	}
	return string(got), out.String()
}

// formOf is a question with one field.
func formOf(field string, required bool) string {
	list := ""
	if required {
		list = `"f"`
	}
	return `{"message":"m","requestedSchema":{"type":"object","properties":{"f":` + field + `},"required":[` + list + `]}}`
}

func TestFields(t *testing.T) {
	for _, tt := range []struct {
		field    string
		required bool
		typed    string // lines before the answer is sent
		want     string // the value; empty for none
		shows    string
	}{
		{`{"type":"string"}`, true, "x\n", `"x"`, "f: text, required\n  > "},
		{`{"type":"string"}`, true, "\n\"q\"\n", `"\"q\""`, "this must be answered"},
		{`{"type":"string"}`, false, "\n", "", "f: left out"},
		{`{"type":"string"}`, false, "  two \r\n", `"  two "`, ""},
		{`{"type":"string","default":"d"}`, true, "\n", `"d"`, "[d]> "},
		{`{"type":"string","maxLength":2,"default":"too long"}`, true, "xyz\nxy\n", `"xy"`, "type at most 2 characters; these are 3"},
		{`{"type":"string","minLength":2,"maxLength":2}`, true, "ü\nüü\n", `"üü"`, "text of 2 characters"},
		{`{"type":"string","format":"uri"}`, true, "example.com\nhttps://example.com/a b\nhttps://example.com\n", `"https://example.com"`, "type a whole address"},
		{`{"type":"string","format":"date"}`, true, "2026-13-01\n2026-07-28\n", `"2026-07-28"`, "type a date, such as"},
		{`{"type":"string","format":"date-time"}`, true, "2026-07-28\n2026-07-28T09:30:00Z\n", `"2026-07-28T09:30:00Z"`, "a date and time"},
		{`{"type":"string","format":"email"}`, true, "Ann <ann@example.com>\nann@example.com\n", `"ann@example.com"`, "a mail address"},
		{`{"type":"integer"}`, true, "x\n1.5\n0x10\n 9007199254740993 \n", `9007199254740993`, "a whole number, such as 3"},
		{`{"type":"integer","minimum":1,"maximum":3}`, true, "0\n4\n2\n", `2`, "a whole number from 1 to 3"},
		{`{"type":"integer"}`, true, "1e2\n", `1e2`, ""},
		{`{"type":"number","minimum":0.5}`, true, "0.4\n1e999999999\nNaN\n+1\n-1\n.5\n0.5\n", `0.5`, "at least 0.5"},
		{`{"type":"boolean","default":true}`, true, "maybe\n\n", `true`, "[yes]> "},
		{`{"type":"boolean"}`, true, "\nNO\n", `false`, "type yes or no"},
		{`{"type":"string","enum":["a","b"]}`, true, "3\n0\nc\nb\n", `"b"`, "type a number from 1 to 2"},
		{`{"enum":["a","b"],"default":"b"}`, false, "\n", `"b"`, "[b]> "},
		{`{"type":"string","enum":["a","b"],"default":"c"}`, false, "\n", "", "number> "},
		{`{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0"}]}`, true, "red\n", `"#f00"`, "1  Red (#f00)"},
		{`{"type":"array","minItems":1,"items":{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]},"default":["b"]}`, true, "none\n1, B, 1\n", `["a","b"]`, "choose at least 1 value"},
		{`{"type":"array","items":{"type":"string","enum":["a"]},"default":["a"]}`, true, "none\n", `[]`, "[a]> "},
		{`{"type":"array","items":{"type":"string","enum":["a"]}}`, true, "\n", `[]`, "f: none"},
	} {
		got, shown := ask(t, formOf(tt.field, tt.required), tt.typed+"\nwhat\ny\n")
		want := `{"action":"accept","content":{}}`
		if tt.want != "" {
			want = `{"action":"accept","content":{"f":` + tt.want + `}}`
		}
		if got != want || !strings.Contains(shown, tt.shows) {
			t.Errorf("%s: %s, want %s\n%s", tt.field, got, want, shown)
		}
	}
}

// What no form may ask for is not asked.
func TestOddForms(t *testing.T) {
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
	}
	for params, want := range map[string]string{
		formOf(`{"type":"object"}`, true):                                      "the field f of the form is neither text",
		formOf(`{"type":"array","items":{"type":"string"}}`, true):             "is a list of anything",
		formOf(`true`, true):                                                   "is neither text",
		`{"requestedSchema":{"properties":{` + strings.Join(many, ",") + `}}}`: "more than 50 fields",
		`{"mode":"url","message":"m"}`:                                         "not one that a browser can open",
		`{"mode":"url","message":"m","url":"javascript:alert(1)"}`:             "not one that a browser can open",
		`{"mode":"url","message":"m","url":"https://a.example/ b"}`:            "not one that a browser can open",
	} {
		got, shown := ask(t, params, "y\ny\ny\n")
		if got != elicitation.Cancel || !strings.Contains(shown, want) {
			t.Errorf("%s: %s\n%s", params, got, shown)
		}
		_ = elicitation.Summary([]byte(params)) // does not panic
	}
	for _, params := range []string{`{"message":"May it?"}`, `{"message":7,"requestedSchema":[]}`, `{}`} {
		if got, shown := ask(t, params, "\nperhaps\nyes\n"); got != `{"action":"accept","content":{}}` {
			t.Errorf("%s: %s\n%s", params, got, shown)
		}
	}
}

func TestVisit(t *testing.T) {
	for address, want := range map[string]string{
		"https://pay.example.com/way?to=1": "host     pay.example.com\n  Open it",
		"http://pay.example.com/":          "warning: the connection is not encrypted",
		"https://xn--pple-43d.com/":        "warning: the host has letters that may look like others",
		"https://safe.example@evil.test/":  "warning: what stands before @ is not the host",
	} {
		got, shown := ask(t, `{"mode":"url","message":"m","url":"`+address+`"}`, "\nyes\n")
		if got != `{"action":"accept"}` || !strings.Contains(shown, want) || !strings.Contains(shown, "address  "+address+"\n") {
			t.Errorf("%s: %s\n%s", address, got, shown)
		}
	}
}

// Whatever a server writes stands behind a bar, at whatever width, and reaches the terminal
// as text.
func TestServersTextsAreApart(t *testing.T) {
	message, err := json.Marshal("first" + strings.Repeat(" ", 60) + "Send this? yes\n\nsecond \x1b[2J\u202e\r\n  Done")
	if err != nil {
		t.Fatal(err)
	}
	_, shown := ask(t, `{"message":`+string(message)+`,"requestedSchema":{"properties":{"f\n> y":{"type":"boolean","title":"t\nx","description":"d\n> y"}}}}`, "\ny\n")
	for line := range strings.Lines(shown) {
		if strings.ContainsAny(line, "\x1b\u202e\r") || len(line) > 80 || strings.HasPrefix(line, "> y") || strings.HasPrefix(line, "  Done") {
			t.Errorf("%q in\n%s", line, shown)
		}
	}
	for _, want := range []string{"\n  | second \\u001b[2J\\u202e\n", "\n  |   Done\n", "\n  | > y\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
}

func TestRefusing(t *testing.T) {
	question := formOf(`{"type":"string"}`, true)
	for typed, want := range map[string]string{
		"":          `{"action":"decline"}`, // Ctrl-D
		"x\nno\n":   `{"action":"decline"}`,
		"x\nc\n":    elicitation.Cancel,
		"x\n":       `{"action":"decline"}`,
		"half":      elicitation.Cancel, // the terminal is gone
		"x\ne\n\ny": `{"action":"cancel"}`,
	} {
		if got, shown := ask(t, question, typed); got != want {
			t.Errorf("%q: %s, want %s\n%s", typed, got, want, shown)
		}
	}
	if got, _ := ask(t, question, "x\nedit\nz\ny\n"); got != `{"action":"accept","content":{"f":"z"}}` {
		t.Errorf("edited: %s", got)
	}
	if got, shown := ask(t, question, strings.Repeat("x", 70<<10)+"\n"); got != elicitation.Cancel {
		t.Errorf("a line without an end: %s\n%.200s", got, shown)
	}
}

// An interrupt cancels one question. The next one means the call.
func TestInterrupt(t *testing.T) {
	in, typing := io.Pipe()
	defer typing.Close()
	asking := make(chan struct{}, 1)
	say := func(format string, _ ...any) {
		if format == "%s" {
			asking <- struct{}{}
		}
	}
	p := elicitation.New(in, say, func() int { return 80 })
	if p.Interrupt() {
		t.Error("there is no question to cancel")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan string, 1)
	ask := func() {
		got, err := p.Ask(ctx, "a__t", []byte(formOf(`{"type":"string"}`, true)))
		done <- fmt.Sprint(string(got), err)
	}
	go ask() // ends with the question
	<-asking
	if !p.Interrupt() {
		t.Error("the question was not cancelled")
	}
	if got := <-done; got != elicitation.Cancel+"<nil>" {
		t.Error(got)
	}
	go ask() // ends with the question
	<-asking
	if p.Interrupt() {
		t.Error("a second interrupt cancels the question only")
	}
	cancel(io.ErrUnexpectedEOF)
	if got := <-done; got != io.ErrUnexpectedEOF.Error() {
		t.Error(got)
	}
}

func TestSummary(t *testing.T) {
	for params, want := range map[string]string{
		formOf(`{"type":"string","title":"Your name"}`, true):      `"m", and wants Your name (f)`,
		`{"mode":"url","message":"Pay","url":"https://a.example"}`: `"Pay", and wants you to visit https://a.example`,
		`{"message":"two\nlines"}`:                                 `"two lines"`,
	} {
		if got := elicitation.Summary([]byte(params)); got != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
}

func FuzzAsk(f *testing.F) {
	f.Add(formOf(`{"type":"array","items":{"enum":["a"]},"default":["a"]}`, true), "1\ny\n")
	f.Add(formOf(`{"type":"number","minimum":1e9999}`, true), "1e9999\ny\n")
	f.Add(`{"mode":"url","url":"https://[::1]%2f"}`, "y\n")
	f.Fuzz(func(t *testing.T, params, typed string) {
		if !json.Valid([]byte(params)) {
			return
		}
		answer, _ := ask(t, params, typed)
		var got struct {
			Action string `json:"action"`
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Action == "" {
			t.Errorf("%s, %q: %s", params, typed, answer)
		}
	})
}
