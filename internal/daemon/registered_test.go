//go:build !windows

package daemon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// registering is a gateway with two templates, three callers, and a service that says what
// it was asked for.
func registering(t *testing.T, more map[string]any) (*home, *running, *service) {
	t.Helper()
	s := &service{asked: make(chan string, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked <- r.Host + " " + r.URL.String()
		fmt.Fprintf(w, "you asked for %s", r.URL)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	h := newHome(t)
	h.write(t, servers{"a": fake()}, s.settings(more, nil))
	return h, h.newRunning(t), s
}

type service struct {
	url   string
	asked chan string
}

// settings are those of a gateway with templates; change changes the first one.
func (s *service) settings(more map[string]any, change func(map[string]any)) map[string]any {
	status := map[string]any{
		"name": "status", "type": "http", "url": s.url + "/v1/{id}?lang={lang}", "description": "State of a thing", "template": true, "class": "read_only",
		"input_schema": map[string]any{
			"type": "object", "required": []string{"id"}, "additionalProperties": false,
			"properties": map[string]any{"id": map[string]any{"type": "string", "pattern": "^[a-z]{1,10}$"}, "lang": map[string]any{"type": "string", "default": "en"}},
		},
	}
	if change != nil {
		change(status)
	}
	say := map[string]any{"name": "say", "type": "command", "sandbox": "auto", "args": []any{"echo", "said", "{word}"}, "input_schema": properties("word"), "template": true}
	out := declaring(status, say)
	maps.Copy(out, withKeys("ann", "bob"))
	maps.Copy(out, more)
	return out
}

// toolNames are the tools in a client's list that begin with a prefix.
func toolNames(t *testing.T, c *lineclient.Client, prefix string) (out []string) {
	t.Helper()
	all, err := c.All(t.Context(), mcp.Tool)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range all {
		if name, _ := mcp.LookupString(raw, "name"); strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}

const idSchema = `{"type":"object","properties":{"id":{"type":"string","enum":["main","other"]}},"required":["id"],"additionalProperties":false}`

func registration(name, template, schema string) string {
	return fmt.Sprintf(`{"name":%q,"description":"Looks","template":%q,"input_schema":%s}`, name, template, schema)
}

// register registers a tool and returns its exposed name.
func register(t *testing.T, c *lineclient.Client, name, template, schema string) string {
	t.Helper()
	got := text(t, c, "toolgate__register_tool", registration(name, template, schema))
	tool, ok := mcp.LookupString([]byte(got), "tool")
	if !ok || string(mcp.Lookup([]byte(got), "served")) != "true" {
		t.Fatalf("%s is not served: %s", name, got)
	}
	return tool
}

// An agent registers a tool from a template: it is its owner's alone, its schema and that of
// the template hold, and it is there after a restart.
func TestRegisteredTools(t *testing.T) {
	t.Parallel()
	h, r, s := registering(t, nil)
	ann, bob := r.Client(t, "ann"), r.Client(t, "bob")
	if got := toolNames(t, ann, "tools__"); got != nil {
		t.Errorf("templates are served: %q", got)
	}
	if got := text(t, ann, "toolgate__find_templates", `{"query":"STATE"}`); !strings.Contains(got, `{"templates":[{"name":"tools__status","description":"State of a thing","input_schema":{`) ||
		strings.Contains(got, "tools__say") || strings.Contains(got, s.url) {
		t.Error(got)
	}
	status := register(t, ann, "look", "tools__status", idSchema)
	say := register(t, ann, "speak", "tools__say", `{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)
	if got := strings.Join(toolNames(t, ann, "dynamic-"), " "); got != status+" "+say || !strings.HasSuffix(status, "__look") {
		t.Errorf("listed: %s", got)
	}
	if got := text(t, ann, status, `{"id":"main"}`); got != "you asked for /v1/main?lang=en" {
		t.Error(got)
	}
	if got := text(t, ann, say, `{"word":"a b; id"}`); got != "said a b; id\n" {
		t.Errorf("%q", got)
	}
	if got := toolNames(t, bob, "dynamic-"); got != nil {
		t.Errorf("bob sees %q", got)
	}
	unknown, _ := bob.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"nothing"}`))
	if got := tried(t.Context(), bob, status, `{"id":"main"}`); got != "Unknown tool: "+status {
		t.Errorf("bob calls it: %s (%s)", got, unknown)
	}
	if got := text(t, bob, "toolgate__find_templates", `{}`); !strings.Contains(got, `"registered":[]`) {
		t.Error(got)
	}
	if got := text(t, bob, "toolgate__remove_tool", `{"name":"look"}`); !strings.Contains(got, "You have registered no tool") {
		t.Error(got)
	}
	if other := register(t, bob, "look", "tools__status", idSchema); other == status {
		t.Errorf("both have %s", other)
	}
	records, _, err := r.Store.Registry().List(t.Context(), store.RegistryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for i := range records {
		sources[records[i].Name] = records[i].Source + " " + records[i].Provider
	}
	if sources[status] != "dynamic external" || sources[say] != "dynamic native" {
		t.Errorf("%v", sources)
	}

	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	r = h.newRunning(t)
	ann = r.Client(t, "ann")
	if got := text(t, ann, status, `{"id":"other"}`); got != "you asked for /v1/other?lang=en" {
		t.Error(got)
	}
	if got := text(t, ann, "toolgate__remove_tool", `{"name":"look"}`); got != `{"removed":"look"}` {
		t.Error(got)
	}
	if got := tried(t.Context(), ann, status, `{"id":"main"}`); got != "Unknown tool: "+status {
		t.Error(got)
	}
	if err := r.RemoveDynamicTool(t.Context(), say, "not wanted"); err != nil {
		t.Error(err)
	}
	if got := toolNames(t, ann, "dynamic-"); got != nil {
		t.Errorf("left: %q", got)
	}
	if len(toolNames(t, r.Client(t, "bob"), "dynamic-")) != 1 {
		t.Error("bob's tool is gone")
	}
}

// What a registration asks for beyond its template is refused with the member and the
// reason, before anybody is asked.
func TestRegistrationsThatDoNotFit(t *testing.T) {
	t.Parallel()
	_, r, s := registering(t, map[string]any{
		"governance": map[string]any{"tools": map[string]any{"toolgate__register_tool": map[string]any{"requires_approval": true}}},
		"approvals":  map[string]any{"wait": "1s"},
	})
	ann := r.Client(t, "ann")
	huge := `{"type":"object","properties":{"id":{"type":"string","enum":["` + strings.Repeat("x", 17<<10) + `"]}},"required":["id"]}`
	for name, tc := range map[string]struct{ args, want string }{
		"another host":    {registration("look", "tools__status", `{"type":"object","properties":{"id":{"type":"string"},"host":{"type":"string"}},"required":["id"]}`), "input_schema.properties.host: the template takes no host; it takes id, lang"},
		"another argv":    {registration("look", "tools__say", `{"type":"object","properties":{"word":{"type":"string"},"args":{"type":"array"}},"required":["word"]}`), "input_schema.properties.args: the template takes no args"},
		"a url":           {`{"name":"look","description":"x","template":"tools__status","url":"http://127.0.0.1:1/","input_schema":` + idSchema + `}`, "url"},
		"no such":         {registration("look", "tools__none", idSchema), `template: there is no template "tools__none"`},
		"no template":     {registration("look", "a__echo", idSchema), `template: there is no template "a__echo"`},
		"nothing needed":  {registration("look", "tools__status", `{"type":"object"}`), "input_schema.required: the template needs id"},
		"not required":    {registration("look", "tools__status", `{"type":"object","properties":{"id":{"type":"string"}}}`), "input_schema.required: the template needs id"},
		"a list":          {registration("look", "tools__status", `{"type":"array"}`), `input_schema: it is an object`},
		"a huge schema":   {registration("look", "tools__status", huge), "input_schema: it has"},
		"a remote ref":    {registration("look", "tools__status", `{"type":"object","properties":{"id":{"$ref":"https://evil.example/schema"}},"required":["id"]}`), `the reference to "https://evil.example/schema" leaves the document`},
		"a file ref":      {registration("look", "tools__status", `{"type":"object","properties":{"id":{"$ref":"file:///etc/passwd"}},"required":["id"]}`), "leaves the document"},
		"an endless ref":  {registration("look", "tools__status", `{"type":"object","properties":{"id":{"$ref":"#/properties/id"}},"required":["id"]}`), "input_schema: "},
		"a look-ahead":    {registration("look", "tools__status", `{"type":"object","properties":{"id":{"type":"string","pattern":"^(?!x)"}},"required":["id"]}`), "input_schema: this cannot be checked"},
		"a name":          {registration("a__b c", "tools__status", idSchema), "name: it has 1 to"},
		"a long name":     {registration(strings.Repeat("a", 40), "tools__status", idSchema), "name: it has 1 to"},
		"a hidden text":   {`{"name":"look","description":"x\u202ey","template":"tools__status","input_schema":` + idSchema + `}`, "description: it holds characters that nobody sees"},
		"no description":  {`{"name":"look","description":"","template":"tools__status","input_schema":` + idSchema + `}`, "description: it has 1 to"},
		"schema twice":    {`{"name":"look","description":"x","template":"tools__status","input_schema":{"type":"object","type":"object"}}`, ""},
		"no schema":       {`{"name":"look","description":"x","template":"tools__status"}`, "input_schema"},
		"schema of texts": {`{"name":"look","description":"x","template":"tools__status","input_schema":"{}"}`, "input_schema"},
	} {
		result, err := ann.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"toolgate__register_tool","arguments":`+tc.args+`}`))
		if said := fmt.Sprint(string(result), err); !strings.Contains(strings.ReplaceAll(said, `\"`, `"`), tc.want) || err == nil && !strings.Contains(said, "invalid_arguments") {
			t.Errorf("%s: %s", name, said)
		}
	}
	if asked, err := r.Store.Approvals().List(t.Context(), "", 10); err != nil || len(asked) != 0 {
		t.Errorf("%d questions, %v", len(asked), err)
	}
	if list, _, err := r.Store.Dynamic().Tools().List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%d tools are stored, %v", len(list), err)
	}
	if len(s.asked) != 0 {
		t.Errorf("the service was asked for %s", <-s.asked)
	}
	if got := tried(t.Context(), ann, "toolgate__register_tool", registration("look", "tools__status", idSchema)); got != "approval_pending" {
		t.Error(got)
	}
	asked, err := r.Store.Approvals().List(t.Context(), "", 10)
	if err != nil || len(asked) != 1 || len(toolNames(t, ann, "dynamic-")) != 0 {
		t.Fatalf("%d questions, %v", len(asked), err)
	}
	if _, err := r.Answer(t.Context(), asked[0].ID, admin.Answer{Do: admin.Approve}); err != nil {
		t.Fatal(err)
	}
	// The approval is for this registration alone.
	other := strings.Replace(idSchema, `"other"`, `"third"`, 1)
	if got := tried(t.Context(), ann, "toolgate__register_tool", registration("look", "tools__status", other)); got != "approval_pending" {
		t.Errorf("another schema than was approved: %s", got)
	}
	register(t, ann, "look", "tools__status", idSchema)
}

// A tool whose template is not the one that it was registered from is not served, and comes
// back with it.
func TestTemplatesThatChange(t *testing.T) {
	t.Parallel()
	h, r, s := registering(t, nil)
	ann := r.Client(t, "ann")
	look := register(t, ann, "look", "tools__status", idSchema)
	for name, change := range map[string]func(map[string]any){
		"another host":   func(status map[string]any) { status["url"] = "http://127.0.0.1:1/v1/{id}?lang={lang}" },
		"another method": func(status map[string]any) { status["method"] = "DELETE" },
		"another schema": func(status map[string]any) { status["input_schema"] = properties("id", "lang") },
		"a fixed header": func(status map[string]any) { status["headers"] = map[string]any{"X-Admin": "yes"} },
		"another class":  func(status map[string]any) { status["class"] = "destructive" },
		"no template":    func(status map[string]any) { status["template"] = false },
		"removed":        func(status map[string]any) { status["name"] = "other" },
	} {
		h.write(t, servers{"a": fake()}, s.settings(nil, change))
		if _, err := r.TakeFile(true); err != nil {
			t.Fatal(err)
		}
		r.settle(t)
		if got := tried(t.Context(), ann, look, `{"id":"main"}`); got != "Unknown tool: "+look {
			t.Errorf("%s: %s", name, got)
		}
		if got := text(t, ann, "toolgate__find_templates", `{}`); !strings.Contains(got, `"served":false,"reason":"its template tools__status `) {
			t.Errorf("%s: %s", name, got)
		}
		if all, err := r.DynamicTools(t.Context()); err != nil || len(all) != 1 || all[0].Problem == "" {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	if len(s.asked) != 0 {
		t.Errorf("the service was asked for %s", <-s.asked)
	}
	h.write(t, servers{"a": fake()}, s.settings(nil, func(status map[string]any) { status["description"] = "Another text" }))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if got := text(t, ann, look, `{"id":"main"}`); got != "you asked for /v1/main?lang=en" {
		t.Error(got)
	}
	h.write(t, servers{"a": fake()}, s.settings(nil, func(status map[string]any) { status["url"] = s.url + "/v2/{id}?lang={lang}" }))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	register(t, ann, "look", "tools__status", idSchema) // against the new template, as its owner wants
	if got := text(t, ann, look, `{"id":"main"}`); got != "you asked for /v2/main?lang=en" {
		t.Error(got)
	}
}

// Whoever can write into the store does not choose what a tool is, and whose.
func TestRegisteredToolsAreSealed(t *testing.T) {
	t.Parallel()
	_, r, _ := registering(t, map[string]any{"auth": map[string]any{"keys": []any{
		map[string]any{"id": "ann", "sha256": sum("ann"), "subject": "ann", "persona": "bot"},
		map[string]any{"id": "bob", "sha256": sum("bob"), "subject": "bob", "persona": "bot"},
	}}})
	ann, bob := r.Client(t, "ann"), r.Client(t, "bob")
	register(t, ann, "look", "tools__status", idSchema)
	speak := register(t, bob, "speak", "tools__say", `{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)
	list, _, err := r.Store.Dynamic().Tools().List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%d, %v", len(list), err)
	}
	if i := strings.Index(string(list[0].Body)+string(list[1].Body), "look"); i >= 0 {
		t.Error("a registration is readable in the store")
	}
	if list[0].Persona != "bot" || list[1].Persona != "bot" {
		t.Errorf("registered by the personas %q and %q", list[0].Persona, list[1].Persona)
	}
	one, other := list[0], list[1]
	if one.Name == speak {
		one, other = other, one
	}
	by := one.Change
	for name, forged := range map[string]store.DynamicTool{
		"another template":     {Name: one.Name, Owner: one.Owner, Template: "tools__say", Body: one.Body, Change: by},
		"another tool's body":  {Name: one.Name, Owner: one.Owner, Template: one.Template, Body: other.Body, Change: by},
		"plain text":           {Name: one.Name, Owner: one.Owner, Template: one.Template, Body: []byte(`{"name":"look"}`), Change: by},
		"another name":         {Name: strings.TrimSuffix(one.Name, "look") + "see", Owner: one.Owner, Template: one.Template, Body: one.Body, Change: by},
		"in another namespace": {Name: strings.TrimSuffix(other.Name, "speak") + "look", Owner: one.Owner, Template: one.Template, Body: one.Body, Change: by},
	} {
		if err := r.Store.Dynamic().Tools().Put(t.Context(), &forged, 9); err != nil {
			t.Fatal(err)
		}
		if err := r.LoadRegistered(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*lineclient.Client{ann, bob} {
			for _, tool := range toolNames(t, c, "dynamic-") {
				if tool != speak && tool != one.Name || tool == one.Name && forged.Name == one.Name {
					t.Errorf("%s: %s is served", name, tool)
				}
			}
		}
		if forged.Name != one.Name {
			if _, err := r.Store.Dynamic().Tools().Remove(t.Context(), forged.Name); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Store.Dynamic().Tools().Put(t.Context(), &one, 9); err != nil {
			t.Fatal(err)
		}
	}
}

// The gate decides on each of the tools by its name, and on their registration by
// tool.enable; their number is bounded.
func TestTheGateOfRegisteredTools(t *testing.T) {
	t.Parallel()
	h, r, s := registering(t, nil)
	if err := os.Mkdir(h.path("policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.policy(t, `package toolgate
import rego.v1
decision := {"allow": false, "reason": "no templates for bob"} if { input.action == "tool.enable"; input.user_id == "bob"; input.tool_name == "tools__status" }
else := {"allow": false, "reason": "not this name"} if { input.action == "tool.enable"; endswith(input.tool_name, "__bad") }
else := {"allow": false, "reason": "too open"} if { input.action == "tool.enable"; not input.args.input_schema.properties.id.enum; input.args.template == "tools__status" }
else := {"allow": false, "reason": "not called"} if { input.action == "tool.request"; endswith(input.tool_name, "__quiet") }
else := true
`)
	h.write(t, servers{"a": fake()}, s.settings(map[string]any{"opa": map[string]any{"path": h.path("policies")}, "limits": map[string]any{"added_per_principal": 2}}, nil))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	ann, bob := r.Client(t, "ann"), r.Client(t, "bob")
	if got := text(t, bob, "toolgate__find_templates", `{}`); strings.Contains(got, "tools__status") || !strings.Contains(got, "tools__say") {
		t.Error(got)
	}
	for _, step := range []struct {
		c          *lineclient.Client
		args, want string
	}{
		{bob, registration("look", "tools__status", idSchema), `there is no template "tools__status"`},
		{ann, registration("bad", "tools__status", idSchema), "not this name"},
		{ann, registration("open", "tools__status", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`), "too open"},
		{ann, registration("quiet", "tools__status", idSchema), `"served":true`},
		{ann, registration("look", "tools__status", idSchema), `"served":true`},
		{ann, registration("third", "tools__status", idSchema), "as many tools as you may"},
		{ann, registration("look", "tools__status", idSchema), `"served":true`}, // at the limit, and the same
	} {
		if got := text(t, step.c, "toolgate__register_tool", step.args); !strings.Contains(got, step.want) {
			t.Errorf("%s: %s; want %s", step.args, got, step.want)
		}
	}
	names := toolNames(t, ann, "dynamic-")
	if len(names) != 2 {
		t.Fatalf("%q", names)
	}
	if got := tried(t.Context(), ann, names[1], `{"id":"main"}`); got != "denied" {
		t.Errorf("%s: %s", names[1], got)
	}
	if _, err := r.SetMode(t.Context(), "LOCKDOWN", "test"); err != nil {
		t.Fatal(err)
	}
	if got := tried(t.Context(), ann, "toolgate__register_tool", registration("look", "tools__status", idSchema)); got != "governance" {
		t.Error(got)
	}
}

// What the operator wrote for a template holds for every tool made of it: class, approval,
// and one rate limit for all of them together.
func TestTemplatesRule(t *testing.T) {
	t.Parallel()
	h, r, s := registering(t, nil)
	h.write(t, servers{"a": fake()}, s.settings(map[string]any{"approvals": map[string]any{"wait": "1s"}}, func(status map[string]any) { status["rate_limit_per_hour"] = 2 }))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	ann := r.Client(t, "ann")
	one, two := register(t, ann, "one", "tools__status", idSchema), register(t, ann, "two", "tools__status", strings.Replace(idSchema, `"enum":["main","other"]`, `"default":"main"`, 1))
	var got []string
	for _, tool := range []string{one, two, one, two} {
		got = append(got, tried(t.Context(), ann, tool, `{"id":"main"}`))
	}
	if want := "ok ok rate_limited rate_limited"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	// The template's own pattern holds, though the tool's schema has none.
	if said := text(t, ann, two, `{"id":"../admin"}`); !strings.Contains(said, "id") || len(s.asked) != 2 {
		t.Errorf("%s, asked %d times", said, len(s.asked))
	}
	if got := tried(t.Context(), ann, two, `{"id":"../admin"}`); got != "invalid_arguments" {
		t.Error(got)
	}
	h.write(t, servers{"a": fake()}, s.settings(map[string]any{"approvals": map[string]any{"wait": "1s"}}, func(status map[string]any) { status["approval"] = true }))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	one = register(t, ann, "one", "tools__status", idSchema)
	if got := tried(t.Context(), ann, one, `{"id":"main"}`); got != "approval_pending" {
		t.Error(got)
	}
	var shown struct{ Annotations map[string]bool }
	all, err := ann.All(t.Context(), mcp.Tool)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range all {
		if name, _ := mcp.LookupString(raw, "name"); name == one {
			if err := json.Unmarshal(raw, &shown); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !shown.Annotations["readOnlyHint"] || !shown.Annotations["openWorldHint"] {
		t.Errorf("%+v", shown)
	}
}

// An approval of a call of a registered tool is for the template that it was asked about: the
// same name with the same arguments is another call once it is made from another template.
func TestApprovalIsForOneTemplate(t *testing.T) {
	t.Parallel()
	h, r, s := registering(t, nil)
	settings := s.settings(map[string]any{"approvals": map[string]any{"wait": "1s"}}, func(status map[string]any) { status["approval"] = true })
	second := maps.Clone(settings["tools"].([]map[string]any)[0])
	second["name"], second["url"] = "drop", s.url+"/v1/drop/{id}?lang={lang}"
	settings["tools"] = append(settings["tools"].([]map[string]any), second)
	h.write(t, servers{"a": fake()}, settings)
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	ann := r.Client(t, "ann")
	one := register(t, ann, "one", "tools__status", idSchema)
	if got := tried(t.Context(), ann, one, `{"id":"main"}`); got != "approval_pending" {
		t.Fatal(got)
	}
	asked, err := r.Store.Approvals().List(t.Context(), "", 10)
	if err != nil || len(asked) != 1 {
		t.Fatalf("%d questions, %v", len(asked), err)
	}
	if _, err := r.Answer(t.Context(), asked[0].ID, admin.Answer{Do: admin.Approve}); err != nil {
		t.Fatal(err)
	}
	if again := register(t, ann, "one", "tools__drop", idSchema); again != one {
		t.Fatalf("%s is another name than %s", again, one)
	}
	if got := tried(t.Context(), ann, one, `{"id":"main"}`); got != "approval_pending" {
		t.Errorf("the approval of one template is used for another: %s", got)
	}
	if len(s.asked) != 0 {
		t.Errorf("the service was asked for %s", <-s.asked)
	}
	register(t, ann, "one", "tools__status", idSchema)
	if got := text(t, ann, one, `{"id":"main"}`); !strings.Contains(got, "/v1/main") {
		t.Errorf("what was approved: %s", got)
	}
}

// Tools that are registered and removed in a loop leave nothing in the catalog, but for what
// an operator has decided. How often one caller may do so is bounded, whoever else does.
func TestRegisteredInALoop(t *testing.T) {
	t.Parallel()
	_, r, _ := registering(t, nil)
	ann, bob := r.Client(t, "ann"), r.Client(t, "bob")
	rows := func() (names []string) {
		t.Helper()
		records, _, err := r.Store.Registry().List(t.Context(), store.RegistryFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			if strings.HasPrefix(records[i].Server, "dynamic-") && records[i].Kind == "tool" {
				names = append(names, records[i].Original)
			}
		}
		return names
	}
	for _, name := range []string{"one", "two"} {
		tool := register(t, ann, name, "tools__status", idSchema)
		if got := strings.Join(rows(), " "); got != name {
			t.Errorf("the catalog has %q", got)
		}
		if name == "two" {
			r.settle(t)
			r.change(t, admin.CatalogChange{Name: tool, Op: admin.CatalogDisable})
		}
		if got := text(t, ann, "toolgate__remove_tool", `{"name":"`+name+`"}`); !strings.Contains(got, "removed") {
			t.Fatal(got)
		}
		r.settle(t)
	}
	if got := strings.Join(rows(), " "); got != "two" { // which stays disabled if it comes back
		t.Errorf("the catalog has %q", got)
	}
	steps := 4
	for tried(t.Context(), ann, "toolgate__remove_tool", `{"name":"none"}`) != "rate_limited" {
		if steps++; steps > 200 {
			t.Fatal("there is no limit")
		}
	}
	if steps != 120 {
		t.Errorf("%d steps in an hour", steps)
	}
	if got := tried(t.Context(), ann, "toolgate__register_tool", registration("look", "tools__status", idSchema)); got != "rate_limited" {
		t.Error(got)
	}
	register(t, bob, "look", "tools__status", idSchema)
}
