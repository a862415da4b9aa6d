package form_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/console/form"
)

// A file is sent as it is, line ends included, also when the page with its field comes
// again: a browser would write the line ends of a text anew.
func TestFileKeepsItsLineEnds(t *testing.T) {
	t.Parallel()
	schema := object(`{"type":"string","contentMediaType":"text/plain"}`)
	f := form.New(schema, "v", url.Values{}, nil)
	files := f.Uploads()
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	files[0].SetFile([]byte("a\r\nb\nc\rd"))
	want := `{"f":"a\r\nb\nc\rd"}`
	if got, ok := f.JSON(); !ok || string(got) != want {
		t.Errorf("sent: %s %v", got, ok)
	}
	if strings.ContainsAny(files[0].Text, "\r\n") || files[0].Size() < 8 {
		t.Errorf("the page keeps %q, %d bytes", files[0].Text, files[0].Size())
	}
	again := form.New(schema, "v", url.Values{"v/f": {files[0].Text}}, nil)
	if got, ok := again.JSON(); !ok || string(got) != want {
		t.Errorf("sent again: %s %v", got, ok)
	}
	filled := form.New(schema, "v", nil, []byte(want))
	if got, ok := filled.JSON(); !ok || string(got) != want || !form.Holds(schema, []byte(want)) {
		t.Errorf("filled from JSON: %s %v", got, ok)
	}
	broken := form.New(schema, "v", url.Values{"v/f": {"no base64!"}}, nil)
	if _, ok := broken.JSON(); ok || len(broken.Fields[0].Problems) != 1 {
		t.Errorf("what is no file: %v", broken.Fields[0].Problems)
	}
}

// The forms of one page share what a form may have.
func TestFormsShareAPage(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 300 {
		all = append(all, `"p`+string(rune('a'+i%26))+strings.Repeat("x", i/26)+`":{"type":"string"}`)
	}
	schema := []byte(`{"properties":{` + strings.Join(all, ",") + `}}`)
	for forms, want := range map[int]int{0: 200, 1: 200, 2: 100, 16: 25} {
		f := form.NewOneOf(forms, schema, "q", nil)
		if len(f.Fields) != want || f.Left != 300-want {
			t.Errorf("%d forms: %d fields, %d left", forms, len(f.Fields), f.Left)
		}
	}
}
