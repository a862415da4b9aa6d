package result

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// keptOf is what a store keeps of a result.
func keptOf(t testing.TB, whole string) *Kept {
	t.Helper()
	kept := NewStore(StoreLimits{KeptResults: 64 << 20, KeptResultsPerPrincipal: 64 << 20, KeptResultsTime: 1}, "").Keep("alice", "h", Tool{Server: "s", Original: "list"}, nil, []byte(whole))
	if kept == nil {
		t.Fatal("it is not kept")
	}
	return kept
}

// ask asks about a kept result by its id and further arguments.
func ask(t testing.TB, kept *Kept, more string) (string, error) {
	t.Helper()
	ctx := WithReader(t.Context(), func(_ context.Context, uri string) (Reading, error) {
		if uri != kept.URI() {
			return Reading{}, ErrNotKept
		}
		return Reading{Contents: kept.Contents}, nil
	})
	return Query(ctx, []byte(`{"id":"`+kept.id+`"`+more+`}`))
}

func textResult(text string) string {
	return `{"content":[` + string(textBlock(text)) + `]}`
}

const listed = `{"items":[{"id":1,"title":"one"},{"id":2,"title":"two"}]}`

func TestQuery(t *testing.T) {
	var numbered strings.Builder
	for i := 1; i <= 3000; i++ {
		fmt.Fprintf(&numbered, "line %d\n", i)
	}
	results := map[string]string{
		"text":       textResult("first\nerror: no\nlast"),
		"numbered":   textResult(numbered.String()),
		"json":       textResult(listed),
		"structured": `{"content":[{"type":"text","text":"a summary"}],"structuredContent":` + listed + `}`,
		"twin":       `{"content":[` + string(textBlock(listed)) + `],"structuredContent":` + listed + `}`,
		"two":        `{"content":[{"type":"text","text":"a"},{"type":"text","text":"[1]"}]}`,
		"image":      `{"content":[{"type":"image","mimeType":"image/png","data":"AAEC"}]}`,
		"long":       textResult(strings.Repeat("é", 3000) + "NEEDLE" + strings.Repeat("é", 3000)),
	}
	for _, tc := range []struct{ of, more, want, refusal string }{
		{of: "text", want: "first\nerror: no\nlast\n[page 1 of 1]"},
		{of: "text", more: `,"page":1`, want: "first\nerror: no\nlast\n[page 1 of 1]"},
		{of: "text", more: `,"page":2`, refusal: "page: the result has 1 pages."},
		{of: "text", more: `,"page":0`, refusal: "page is a number from 1 on."},
		{of: "text", more: `,"page":"2"`, refusal: queryForm},
		{of: "text", more: `,"page":1e3`, refusal: queryForm},
		{of: "text", more: `,"lines":"2-3"`, want: "error: no\nlast\n[lines 2 to 3 of 3]"},
		{of: "text", more: `,"lines":"1-1"`, want: "first\n[lines 1 to 1 of 3]"},
		{of: "text", more: `,"lines":"2"`, want: "error: no\n[lines 2 to 2 of 3]"},
		{of: "text", more: `,"lines":"2-9999999"`, want: "error: no\nlast\n[lines 2 to 3 of 3]"},
		{of: "text", more: `,"lines":"4-5"`, refusal: "lines: the result has 3 lines."},
		{of: "text", more: `,"lines":"3-2"`, refusal: `lines is a range such as "10-40", from line 1 on.`},
		{of: "text", more: `,"lines":"0-2"`, refusal: `lines is a range such as "10-40", from line 1 on.`},
		{of: "text", more: `,"lines":"2-"`, refusal: `lines is a range such as "10-40", from line 1 on.`},
		{of: "numbered", more: `,"lines":"2999-3000"`, want: "line 2999\nline 3000\n[lines 2999 to 3000 of 3001]"},
		{of: "text", more: `,"grep":"^(error|last)"`, want: "2:error: no\n3:last\n[2 of 3 lines match]"},
		{of: "text", more: `,"grep":"none"`, want: "[0 of 3 lines match]"},
		{of: "text", more: `,"grep":"("`, refusal: "grep: the regular expression does not compile: error parsing regexp: missing closing ): `(`."},
		{of: "text", more: `,"grep":"` + strings.Repeat("x", 1001) + `"`, refusal: "grep: a regular expression may have 1000 bytes."},
		{of: "json", more: `,"grep":"title"`, want: "5:\"title\": \"one\"\n9:\"title\": \"two\"\n[2 of 12 lines match]"},
		{of: "text", more: `,"select":"split(\"\\n\") | length"`, want: "3"},
		{of: "json", more: `,"select":".items[].title"`, want: "one\ntwo"},
		{of: "structured", more: `,"select":".items[] | .id"`, want: "1\n2"},
		{of: "structured", more: `,"grep":"summary"`, want: "13:a summary\n[1 of 13 lines match]"},
		{of: "twin", more: `,"grep":"two"`, want: "9:\"title\": \"two\"\n[1 of 12 lines match]"},
		{of: "two", more: `,"select":"."`, want: `["a",[1]]`},
		{of: "json", more: `,"select":"empty"`, want: "[select returned nothing]"},
		{of: "json", more: `,"select":".["`, refusal: "select does not compile: it ends too early, at character 3."},
		{of: "json", more: `,"select":"env"`, refusal: "select does not compile: "},
		{of: "json", more: `,"select":".items.a"`, refusal: "select failed: expected an object but got: array"},
		{of: "json", more: `,"select":7`, refusal: queryForm},
		{of: "json", more: `,"select":".","grep":"x"`, refusal: "Give only one of select and grep."},
		{of: "json", more: `,"offset":1`, refusal: queryForm},
		{of: "image", refusal: "The result has no text; read the resource toolgate://results/"},
	} {
		got, err := ask(t, keptOf(t, results[tc.of]), tc.more)
		if got != tc.want || (err != nil) != (tc.refusal != "") || err != nil && !strings.HasPrefix(err.Error(), tc.refusal) {
			t.Errorf("%s, %s: got %q, %v; want %q, %s", tc.of, tc.more, got, err, tc.want, tc.refusal)
		}
	}
	if got, err := ask(t, keptOf(t, results["long"]), `,"grep":"NEEDLE"`); err != nil || !strings.Contains(got, "éNEEDLEé") || len(got) > 2*lineBytes || !utf8.ValidString(got) {
		t.Errorf("got %q, %v", got, err)
	}
}

// The pages of a result are all of it, each within the bound and of whole characters.
func TestPagesAreTheWhole(t *testing.T) {
	whole := strings.Repeat("añ€😀 ", 9000)
	kept := keptOf(t, textResult(whole))
	var read strings.Builder
	for page := 1; ; page++ {
		got, err := ask(t, kept, fmt.Sprintf(`,"page":%d`, page))
		if err != nil {
			break
		}
		text, note, _ := strings.Cut(got, "\n")
		if len(text) > pageBytes+utf8.UTFMax || !utf8.ValidString(text) || !strings.HasPrefix(note, fmt.Sprintf("[page %d of ", page)) {
			t.Fatalf("page %d: %d bytes, %s", page, len(text), note)
		}
		read.WriteString(text)
	}
	if read.String() != whole {
		t.Errorf("the pages have %d of %d bytes", read.Len(), len(whole))
	}
}

// Every answer is bounded, whatever the result and the arguments are.
func TestQueryIsBounded(t *testing.T) {
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for name, whole := range map[string]string{
		"one line": textResult(strings.Repeat("x", 1<<20)), "lines": textResult(strings.Repeat("x\n", 1<<19)),
		"empty lines": textResult(strings.Repeat("\n", 1<<20)), "deep": textResult("[" + strings.Repeat(deep+",", 5000) + "1]"),
		"controls": textResult(strings.Repeat("\x01", 1<<18)),
	} {
		kept := keptOf(t, whole)
		for _, more := range []string{
			``, `,"page":3`, `,"lines":"1-99999999"`, `,"grep":""`, `,"grep":"x"`, `,"grep":"(x?){1000}"`, `,"grep":"(x+x+)+y"`, `,"select":"."`,
		} {
			got, err := ask(t, kept, more)
			if limit := pageBytes + 2*lineBytes; len(got) > limit || err != nil && len(err.Error()) > lineBytes {
				t.Errorf("%s, %s: %d bytes, %v", name, more, len(got), err)
			}
		}
	}
	kept := keptOf(t, textResult("{}"))
	for _, program := range []string{"def f: f; f", "repeat(.)", "[range(1e9)]", `\"x\" * 1e9`, "reduce range(40) as $i (\\\"x\\\"; . + .)"} {
		got, err := ask(t, kept, `,"select":"`+program+`"`)
		if err == nil || !strings.HasPrefix(err.Error(), "select failed: ") {
			t.Errorf("%s: got %d bytes, %v", program, len(got), err)
		}
	}
}

// Without a reader, and for an id that is none, nothing is kept.
func TestQueryOfNothing(t *testing.T) {
	if _, err := Query(t.Context(), []byte(`{"id":"x"}`)); !errors.Is(err, ErrNotKept) {
		t.Errorf("got %v", err)
	}
	kept := keptOf(t, textResult("x"))
	for _, id := range []string{"x", URIPrefix, kept.id + "/1", strings.ToUpper(kept.id), URIPrefix + URIPrefix + kept.id} {
		ctx := WithReader(t.Context(), func(_ context.Context, uri string) (Reading, error) {
			if uri == kept.URI() {
				return Reading{Contents: kept.Contents}, nil
			}
			return Reading{}, ErrNotKept
		})
		if got, err := Query(ctx, []byte(`{"id":"`+id+`"}`)); !errors.Is(err, ErrNotKept) {
			t.Errorf("%s: got %q, %v", id, got, err)
		}
	}
	for _, args := range []string{``, `{}`, `{"id":""}`, `{"id":7}`, `{"page":1}`} {
		if got, err := Query(t.Context(), []byte(args)); err == nil || !strings.HasPrefix(err.Error(), queryForm) {
			t.Errorf("%s: got %q, %v", args, got, err)
		}
	}
}

// No arguments and no contents make a query fail otherwise than by a sentence.
func FuzzQuery(f *testing.F) {
	for _, args := range []string{`{"id":"x","lines":"1-2"}`, `{"id":"x","grep":"a+"}`, `{"id":"x","page":2}`, `{"id":"x","select":".a"}`} {
		f.Add(args, "a\nb {}")
	}
	f.Fuzz(func(t *testing.T, args, text string) {
		if mcp.Validate([]byte(args), mcp.Limits{}) != nil || !mcp.IsObject([]byte(args)) {
			return
		}
		kept := keptOf(t, textResult(text))
		ctx := WithReader(t.Context(), func(context.Context, string) (Reading, error) { return Reading{Contents: kept.Contents}, nil })
		got, err := Query(ctx, []byte(args))
		if len(got) > pageBytes+2*lineBytes || err != nil && (got != "" || err.Error() == "") {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
}
