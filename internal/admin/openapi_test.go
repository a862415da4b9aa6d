package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/audit"
)

var update = flag.Bool("update", false, "write openapi.json")

// The description has the routes and the types of the code.
func TestOpenAPIIsOfTheCode(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(document(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), string(openAPI)); diff != "" {
		t.Errorf("openapi.json is not of this code; `go test ./internal/admin -run OpenAPI -update` writes it (-want +got):\n%s", diff)
	}
}

// everything is a gateway of each kind. Nobody calls it.
type everything struct{ kinds }

type kinds interface {
	Gateway
	Explainer
	PolicyReplayer
	Finder
	Learner
	SearchReader
	Cataloger
	ModeKeeper
	Replicas
	Restarter
	BreakerKeeper
	CatalogLister
	Approvals
	UsageReader
	Adder
	Watched
	Logins
	Declarer
	Registrar
	Budgets
	Runs
	Jobs
	AuditReader
	CallReader
	Tries
	ConsoleOpener
}

// Each endpoint is registered once, and no other one can be.
func TestEveryEndpointIsDescribed(t *testing.T) {
	t.Parallel()
	var want []string
	for _, e := range endpoints {
		want = append(want, e.pattern)
		if e.does == "" || !strings.HasSuffix(e.does, ".") {
			t.Errorf("%s says %q", e.pattern, e.does)
		}
	}
	got := register(everything{}).registered
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("endpoints (-described +registered):\n%s", diff)
	}
	defer func() {
		if recover() == nil {
			t.Error("an endpoint is registered that nothing describes")
		}
	}()
	(&router{mux: http.NewServeMux()}).HandleFunc("GET /v1/secret", nil)
}

// document is the description as openapi.json has it.
func document(t *testing.T) map[string]any {
	t.Helper()
	schemas := map[string]any{}
	paths := map[string]any{}
	for _, e := range endpoints {
		method, path, _ := strings.Cut(e.pattern, " ")
		at, ok := paths[path].(map[string]any)
		if !ok {
			at = map[string]any{}
			paths[path] = at
		}
		at[strings.ToLower(method)] = operation(t, &e, method, path, schemas)
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "toolgate admin API", "version": "1", "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "What a running gateway is asked and answers, on its control socket and on listen.admin. Operations with x-toolgate-local are on the control socket alone.",
		},
		"servers":  []any{map[string]any{"url": "/"}},
		"security": []any{map[string]any{"token": []any{}}, map[string]any{"caller": []any{}}},
		"paths":    paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{
				"token":  map[string]any{"type": "apiKey", "in": "header", "name": headerToken, "description": "The text of admin.token in the state folder."},
				"caller": map[string]any{"type": "http", "scheme": "bearer", "description": "An API key or token of a caller of auth.admins."},
			},
		},
	}
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

func operation(t *testing.T, e *endpoint, method, path string, schemas map[string]any) map[string]any {
	t.Helper()
	var parameters []any
	add := func(in, name string, required bool) {
		name, kind, typed := strings.Cut(name, ":")
		if !typed {
			kind = "string"
		}
		schema := map[string]any{"type": kind}
		if name == "group" || name == "scope" { // may come several times
			schema = map[string]any{"type": "array", "items": schema}
		}
		p := map[string]any{"name": name, "in": in, "schema": schema}
		if required {
			p["required"] = true
		}
		parameters = append(parameters, p)
	}
	for _, m := range inPath.FindAllStringSubmatch(path, -1) {
		add("path", m[1], true)
	}
	for name := range strings.FieldsSeq(e.query) {
		add("query", name, false)
	}
	for name := range strings.FieldsSeq(e.header) {
		add("header", name, false)
	}
	body := func(v any) map[string]any {
		return map[string]any{"application/json": map[string]any{"schema": reference(t, reflect.TypeOf(v), schemas)}}
	}
	answer := map[string]any{"description": "The answer."}
	status := "200"
	if e.out != nil {
		answer["content"] = body(e.out)
	} else {
		status, answer["description"] = "101", "The protocol changes."
	}
	id := strings.ToLower(method)
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part = strings.Trim(part, "{}"); part != "v1" {
			id += "-" + strings.TrimSuffix(part, ".json")
		}
	}
	op := map[string]any{
		"operationId": id, "summary": e.does,
		"responses": map[string]any{status: answer, "default": map[string]any{"description": "Why there is no such answer.", "content": body(problem{})}},
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if e.in != nil {
		op["requestBody"] = map[string]any{"required": true, "content": body(e.in)}
	}
	if e.local {
		op["x-toolgate-local"] = true
	}
	return op
}

var anything = &jsonschema.Schema{Description: "Any JSON value."}

// known are the schemas of types that write themselves.
var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[json.RawMessage](): anything,
	reflect.TypeFor[audit.Fields]():    {Type: "object"},
}

// names are those of types whose own name says nothing without its package.
var names = map[reflect.Type]string{reflect.TypeFor[approval.Item](): "Approval", reflect.TypeFor[audit.Report](): "AuditReport"}

// reference returns the schema of a type: for a type with a name a reference to it.
func reference(t *testing.T, of reflect.Type, schemas map[string]any) any {
	t.Helper()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct {
		return map[string]any{"type": []string{"array", "null"}, "items": reference(t, of.Elem(), schemas)}
	}
	if of.Name() == "" || of.Kind() != reflect.Struct {
		return schemaOf(t, of)
	}
	name := strings.ToUpper(of.Name()[:1]) + of.Name()[1:]
	if other, ok := names[of]; ok {
		name = other
	}
	if schemas[name] == nil {
		schemas[name] = schemaOf(t, of)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

func schemaOf(t *testing.T, of reflect.Type) any {
	t.Helper()
	schema, err := jsonschema.ForType(of, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		t.Fatalf("%s: %v", of, err)
	}
	return schema
}
