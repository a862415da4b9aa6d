package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/config/secret"
)

// templateOf is a template of these arguments, see [schema].
func templateOf(args ...string) *Settings {
	return &Settings{
		Name: "status", Namespace: "tools", Template: true, Type: "http", URL: "https://a.example/{id}?q={q}", Class: "read_only", Approval: true,
		Headers: map[string]secret.Text{"Authorization": "Bearer one"}, Env: map[string]secret.Text{"PATH": "/bin"},
		InputSchema: schema(args...), Description: "Of the template",
	}
}

// TestDerivedTools are their template with a name, a description and a schema.
func TestDerivedTools(t *testing.T) {
	of := templateOf("id", "q=x")
	got, err := of.Derive("dynamic-x", &Definition{Name: "look", Description: "Looks", Input: schema("id")})
	if err != nil {
		t.Fatal(err)
	}
	want := *templateOf("id", "q=x")
	want.Name, want.Namespace, want.Description, want.Template = "look", "dynamic-x", "Looks", false
	want.InputSchema, want.Of, want.Within = schema("id"), "tools__status", of.InputSchema
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b secret.Text) bool { return a.Reveal() == b.Reveal() }), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bare := &Settings{Name: "now", Namespace: "tools", Template: true, Type: "http", URL: "https://a.example/now"}
	got, err = bare.Derive("dynamic-x", &Definition{Name: "now", Description: "Now", Input: json.RawMessage(`{"type":"object"}`)})
	if err != nil || string(got.Within) != string(noInput) {
		t.Errorf("%s, %v", got.Within, err)
	}
}

// TestDefinitionsThatDoNotFit are refused with the member and the reason.
func TestDefinitionsThatDoNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		of             *Settings
		change         func(*Definition)
		member, reason string
	}{
		"no template": {of: &Settings{Name: "x"}, member: "template", reason: "x is no template"},
		"no name":     {change: func(d *Definition) { d.Name = "" }, member: "name", reason: "1 to 34 letters"},
		"a prefix":    {change: func(d *Definition) { d.Name = "a.b" }, member: "name", reason: "letters"},
		"a long name": {change: func(d *Definition) { d.Name = strings.Repeat("a", 35) }, member: "name", reason: "1 to 34"},
		"blank":       {change: func(d *Definition) { d.Description = " \n" }, member: "description", reason: "1 to 2048 bytes"},
		"a long text": {change: func(d *Definition) { d.Description = strings.Repeat("a", 2049) }, member: "description", reason: "1 to 2048 bytes"},
		"backwards":   {change: func(d *Definition) { d.Description = "a\u202eb" }, member: "description", reason: "nobody sees"},
		"a terminal":  {change: func(d *Definition) { d.Description = "a\x1b[2J" }, member: "description", reason: "nobody sees"},
		"no text":     {change: func(d *Definition) { d.Description = "a\xff" }, member: "description", reason: "nobody sees"},
		"no JSON":     {change: func(d *Definition) { d.Input = json.RawMessage(`{"type":`) }, member: "input_schema", reason: "cannot be read"},
		"a key twice": {change: func(d *Definition) { d.Input = json.RawMessage(`{"type":"object","type":"object"}`) }, member: "input_schema", reason: "cannot be read"},
		"nothing":     {change: func(d *Definition) { d.Input = nil }, member: "input_schema", reason: "cannot be read"},
		"no object":   {change: func(d *Definition) { d.Input = json.RawMessage(`{"type":"string"}`) }, member: "input_schema", reason: `"type": "object"`},
		"huge": {change: func(d *Definition) {
			d.Input = json.RawMessage(`{"type":"object","x":"` + strings.Repeat("x", MaxDefinition) + `"}`)
		}, member: "input_schema", reason: "may have 16384"},
		"more than it has":  {change: func(d *Definition) { d.Input = schema("id", "url?") }, member: "input_schema.properties.url", reason: "takes no url; it takes id, q"},
		"more than nothing": {of: &Settings{Name: "now", Template: true}, member: "input_schema.properties.id", reason: "it takes no arguments"},
		"left out":          {change: func(d *Definition) { d.Input = schema("q") }, member: "input_schema.required", reason: "the template needs id"},
		"optional":          {change: func(d *Definition) { d.Input = schema("id?") }, member: "input_schema.required", reason: "require it, or give it a default"},
	} {
		t.Run(name, func(t *testing.T) {
			of, d := tc.of, &Definition{Name: "look", Description: "Looks", Input: schema("id")}
			if of == nil {
				of = templateOf("id", "q=x")
			}
			if tc.change != nil {
				tc.change(d)
			}
			_, err := of.Derive("dynamic-x", d)
			wrong, is := errors.AsType[*Misfit](err)
			if !is || wrong.Member != tc.member || !strings.Contains(wrong.Reason, tc.reason) {
				t.Errorf("%v", err)
			}
		})
	}
	for name, input := range map[string]json.RawMessage{"a default": schema("id=x"), "fewer": schema("id"), "all": schema("id", "q?")} {
		if _, err := templateOf("id", "q=x").Derive("dynamic-x", &Definition{Name: "look", Description: "Looks\nat it", Input: input}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func echoPath(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL) }

// TestPins change with everything that a template does, and with nothing else.
func TestPins(t *testing.T) {
	pin := func(change func(*Settings)) string {
		t.Helper()
		s := templateOf("id")
		if change != nil {
			change(s)
		}
		got, err := s.Pin()
		if err != nil || len(got) != 64 {
			t.Fatalf("%q, %v", got, err)
		}
		return got
	}
	before := pin(nil)
	for name, tc := range map[string]struct {
		change func(*Settings)
		same   bool
	}{
		"the same":         {nil, true},
		"its description":  {func(s *Settings) { s.Description, s.Title = "x", "y" }, true},
		"a renewed token":  {func(s *Settings) { s.Headers["Authorization"] = "Bearer two" }, true},
		"another header":   {func(s *Settings) { s.Headers["X-Admin"] = "yes" }, false},
		"another host":     {func(s *Settings) { s.URL = "https://b.example/{id}?q={q}" }, false},
		"another program":  {func(s *Settings) { s.Args = []string{"/bin/rm"} }, false},
		"another PATH":     {func(s *Settings) { s.Env["PATH"] = "/tmp" }, false},
		"another schema":   {func(s *Settings) { s.InputSchema = schema("id?") }, false},
		"no approval":      {func(s *Settings) { s.Approval = false }, false},
		"another class":    {func(s *Settings) { s.Class = "destructive" }, false},
		"another timeout":  {func(s *Settings) { s.Timeout = 1 }, false},
		"write access":     {func(s *Settings) { s.Write = []string{"/"} }, false},
		"a limit":          {func(s *Settings) { s.Limits.Files = 7 }, false},
		"another template": {func(s *Settings) { s.Name = "other" }, false},
	} {
		if got := pin(tc.change); (got == before) != tc.same {
			t.Errorf("%s: the same hash: %v", name, got == before)
		}
	}
}

// TestBothSchemasHold: what the tool's own schema lets through, the template's may refuse,
// with the defaults of both filled in.
func TestBothSchemasHold(t *testing.T) {
	url := serve(t, echoPath)
	var asked []string
	b := backend(t, Tool{
		Input: schema("id", "lang=de"), Within: schema("id=none", "lang=en", "deep?"), HTTP: &HTTP{URL: url + "/{id}?l={lang}&d={deep}"},
		Fits: func(args []byte) string {
			asked = append(asked, string(args))
			if strings.Contains(string(args), "evil") {
				return "id: not this one"
			}
			return ""
		},
	})
	for args, want := range map[string]string{
		`{"id":"a"}`: "/a?l=de", `{"id":"a","lang":"fr"}`: "/a?l=fr", `{"id":"a","deep":1}`: "/a?l=de&d=1", `{"id":"evil"}`: "id: not this one",
	} {
		asked = nil
		text, _, failed := answerOfCall(t, b, args)
		if text != want || failed != strings.HasPrefix(want, "id:") || len(asked) != 1 {
			t.Errorf("%s: %q, %v, asked %q", args, text, failed, asked)
		}
		if said := b.Check(t.Context(), "it", []byte(args)); (said != "") != failed || failed && said != want {
			t.Errorf("%s: checked: %q", args, said)
		}
	}
	b.Check(t.Context(), "it", []byte(`{"id":"a"}`))
	if got := asked[len(asked)-1]; !strings.Contains(got, `"lang":"de"`) || !strings.Contains(got, `"id":"a"`) {
		t.Errorf("held against the template's schema: %s", got)
	}
	if _, err := New("tools", []Tool{{Name: "it", Template: true, Input: schema("x"), HTTP: &HTTP{URL: "https://a.example/{y}"}}}); err == nil {
		t.Error("a template is not checked")
	}
	if l, _ := backend(t, Tool{Template: true, HTTP: &HTTP{URL: "https://a.example/"}}).Listing(); len(l.Items) != 0 {
		t.Errorf("a template is listed: %v", l.Items)
	}
}
