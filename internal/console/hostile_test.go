package console

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console/form"
)

// hostile are published payloads of scripts, of characters that change the order of
// others, and of characters that control.
func hostile(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range bytes.Lines(text) {
		var s string
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) < 100 {
		t.Fatalf("%d payloads", len(all))
	}
	return all
}

// fill writes a text into everything of a value that holds text, and makes lists of one.
func fill(v reflect.Value, text string, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text, depth-1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text, depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Key().Kind() == reflect.String {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(value, text, depth)
			v.SetMapIndex(reflect.ValueOf("tool"), value)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field, text, depth)
			}
		}
	}
}

// filled is what each view shows, all of it hostile.
func filled(text string) map[string]any {
	all := map[string]any{
		"now": &nowData{}, "calls": &callsData{}, "call": &callData{}, "catalog": &catalogData{}, "entry": &admin.CatalogEntry{},
		"approvals": &approvalsData{}, "approval": &approval.Item{}, "budgets": &budgetsData{}, "access": &accessData{}, "signin": &signInData{},
		"try": &tryData{}, "tool": &toolData{}, "tried": &triedData{}, "replicas": &replicasData{}, "jobs": &jobsData{}, "searches": &searchesData{}, "runs": &runsData{}, "run": &runData{},
	}
	for _, v := range all {
		fill(reflect.ValueOf(v).Elem(), text, 6)
	}
	for _, data := range []*form.Form{all["tool"].(*toolData).Form, all["tried"].(*triedData).Asked[0].Form} {
		field := data.Fields[0]
		data.Fields = nil
		for _, kind := range []form.Kind{form.Text, form.Long, form.Number, form.Choice, form.Choices, form.File, form.JSON, form.Object, form.List} {
			field.Kind = kind
			data.Fields = append(data.Fields, field)
		}
	}
	run := all["run"].(*runData).Run
	run.Steps = append(run.Steps, run.Steps[0])
	run.Steps[1].Kind = functionStep
	all["calls"].(*callsData).Next, all["runs"].(*runsData).Next, all["jobs"].(*jobsData).Next = "", "", ""
	all["approval"].(*approval.Item).State = "pending"
	all["message"] = text
	return all
}

// checkPage looks for what a page must not have.
func checkPage(t *testing.T, view, payload string, page []byte) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "textarea" { // what is changed there is changed as it is
			if i := strings.IndexFunc(n.Data, func(r rune) bool {
				return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
			}); i >= 0 {
				t.Errorf("%s with %q: text %q", view, payload, n.Data)
			}
		}
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script":
			scripts++
		case "iframe", "object", "embed", "base", "style", "img", "video", "audio", "math", "template", "frameset", "marquee":
			t.Errorf("%s with %q: element %s", view, payload, n.Data)
		}
		for _, a := range n.Attr {
			name, value := strings.ToLower(a.Key), strings.TrimSpace(a.Val)
			switch {
			case strings.HasPrefix(name, "on"), name == "style", name == "srcdoc", name == "formaction", strings.HasPrefix(name, "data-hx"), strings.HasPrefix(name, "hx-on"):
				t.Errorf("%s with %q: attribute %s", view, payload, name)
			case name == "href" || name == "action" || name == "src" || name == "hx-get" || name == "sse-connect":
				if value != "#main" && (!strings.HasPrefix(value, "/") || strings.HasPrefix(value, "//") || strings.Contains(value, `\`)) {
					t.Errorf("%s with %q: %s is %q", view, payload, name, value)
				}
			}
		}
	}
	if scripts != 4 {
		t.Errorf("%s with %q: %d scripts", view, payload, scripts)
	}
}

// Whatever servers, callers and files say is text on every page.
func TestHostileTextIsText(t *testing.T) {
	t.Parallel()
	for _, payload := range hostile(t) {
		for view, data := range filled(payload) {
			var b bytes.Buffer
			p := &page{Title: payload, View: view, Command: command("x", payload), Data: data, Person: person{role: Admin}, CSRF: "t", Nav: []navItem{{"/now", "Now", "n", true}}}
			if err := templates()[view].ExecuteTemplate(&b, "layout", p); err != nil {
				t.Fatalf("%s: %v", view, err)
			}
			checkPage(t, view, payload, b.Bytes())
		}
	}
}

// A text of 1 MB is cut wherever it is shown.
func TestLongTextIsCut(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	text := strings.Repeat("ü", size/2)
	for _, cut := range []string{short(text), long(text)} {
		if len(cut) > longText+100 || !strings.Contains(cut, "bytes more") || strings.ContainsRune(cut, unicode.ReplacementChar) {
			t.Errorf("%d bytes: %s", len(cut), cut[len(cut)-40:])
		}
	}
}

// A command is one for a shell, with whatever it has to name.
func TestCommandsAreQuoted(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"a__b": "toolgate show a__b", "": "toolgate show ''", "$(x)": "toolgate show '$(x)'", "it's": `toolgate show 'it'\''s'`, "-rf": "toolgate show '-rf'", "--as=ann": "toolgate show --as=ann", "--as=a b": "toolgate show '--as=a b'", "a b": "toolgate show 'a b'",
	} {
		if got := command("show", words); got != want {
			t.Errorf("%s is not %s", got, want)
		}
	}
}

// JSON that is changed in a form shows all that is in it, and stays the same value.
func TestVisibleJSON(t *testing.T) {
	t.Parallel()
	const text = "a\u202eb\u0007\U000e0041\u2028\u00e4\U0001f600\n"
	raw, err := json.Marshal(map[string]string{text: text})
	if err != nil {
		t.Fatal(err)
	}
	shown := visibleJSON(string(raw))
	var back map[string]string
	if err := json.Unmarshal([]byte(shown), &back); err != nil || back[text] != text {
		t.Errorf("%s: %v", shown, err)
	}
	if strings.IndexFunc(shown, acts) >= 0 || !strings.Contains(shown, "\u00e4\U0001f600") {
		t.Error(shown)
	}
}

// A schema whose texts have 1 MB each, all of them hostile, makes a page that is bounded.
func TestLongSchemasMakeBoundedPages(t *testing.T) {
	t.Parallel()
	const payload, most = "<script>alert(1)</script>\u202e\u0007", 512 << 10
	text, err := json.Marshal(strings.Repeat(payload, 1<<20/len(payload)))
	if err != nil {
		t.Fatal(err)
	}
	long := string(text)
	schema := []byte(`{"properties":{` + long + `:{"type":"string"},"a":{"type":"string","title":` + long + `,"description":` + long + `,"default":` + long + `,"pattern":` + long + `,"format":` + long +
		`},"b":{"enum":[` + long + `]},"c":{"type":"array","items":{"enum":[` + long + `]}},"d":{"type":"number","minimum":` + long + `},"e":{"default":` + long + `}}}`)
	definition := []byte(`{"name":"t","description":` + long + `,"inputSchema":` + string(schema) + `}`)
	whole := strings.Repeat(payload, 1<<20/len(payload))
	question := admin.TryQuestion{Key: "k", Params: []byte(`{"message":` + long + `,"requestedSchema":` + string(schema) + `}`)}
	for view, data := range map[string]any{
		"tool":  &toolData{Tool: admin.TryTool{Name: "t", Description: whole, Definition: definition}, Form: form.New(schema, formPrefix, nil, nil), Raw: "{}"},
		"tried": &triedData{Try: admin.Try{State: admin.TryAsks, Problem: whole, Messages: []admin.TryMessage{{Bytes: len(whole), Text: whole}}}, Asked: []askedData{askedOf(0, 1, &question, nil)}},
		"try":   &tryData{As: callerData{Name: whole}, Tools: []admin.TryTool{{Name: "t", Title: whole, Description: whole}}},
	} {
		var b bytes.Buffer
		p := &page{Title: "Try", View: view, Data: data, Person: person{role: Admin}, Nav: []navItem{{"/now", "Now", "n", true}}}
		if err := templates()[view].ExecuteTemplate(&b, "layout", p); err != nil {
			t.Fatalf("%s: %v", view, err)
		}
		if b.Len() > most {
			t.Errorf("%s has %d bytes", view, b.Len())
		}
		checkPage(t, view, "a long schema", b.Bytes())
	}
}
