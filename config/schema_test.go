package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
)

var update = flag.Bool("update", false, "rewrite generated files and goldens")

// obj is a JSON object; encoding/json sorts its keys, so output is stable.
type obj = map[string]any

// settingsFiles are the files that declare settings.
func settingsFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("settings_*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files of settings", err)
	}
	return append(files, "toolgate.go", "config.go")
}

// fieldDocs are the doc comments of struct fields, by "Type.Field".
func fieldDocs(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, file := range settingsFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				for _, name := range field.Names {
					docs[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
			return true
		})
	}
	return docs
}

type schemaMaker struct {
	t    *testing.T
	docs map[string]string
}

func (m schemaMaker) object(t reflect.Type, pattern string) obj {
	props := obj{}
	var required []string
	for f := range t.Fields() {
		key := f.Tag.Get("config")
		if key == "" {
			m.t.Errorf("%s.%s has no config tag", t.Name(), f.Name)
		}
		doc := m.docs[t.Name()+"."+f.Name]
		if !strings.Contains(doc, "Absent: ") && !strings.Contains(doc, "Required") {
			m.t.Errorf("the doc comment of %s.%s does not say what absence means", t.Name(), f.Name)
		}
		path := tree.Join(pattern, key)
		if !Available(path) {
			continue
		}
		p := m.value(f.Type, f.Tag, path)
		p["description"] = doc
		props[key] = p
		if f.Tag.Get("required") == "true" {
			required = append(required, key)
		}
	}
	out := obj{"type": "object", "properties": props, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func (m schemaMaker) value(t reflect.Type, tag reflect.StructTag, pattern string) obj {
	switch {
	case t == rawType:
		if tag.Get("format") == "object" {
			return obj{"type": "object"}
		}
		return obj{}
	case t == durationType:
		out := obj{"type": "string", "pattern": `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`}
		m.defaultText(out, tag)
		return out
	case t == sizeType:
		out := obj{"type": []string{"string", "integer"}, "pattern": `^[0-9]+ *(B|KiB|MiB|GiB|[kK]B|MB|GB)?$`, "minimum": 0}
		m.defaultText(out, tag)
		return out
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem(), tag, pattern)
	case reflect.Struct:
		if t == reflect.TypeFor[Plan]() {
			return obj{"anyOf": []obj{m.object(t, pattern), {"type": "integer", "minimum": 0}, {"const": "unlimited"}}}
		}
		return m.object(t, pattern)
	case reflect.Map:
		return obj{"type": "object", "additionalProperties": m.value(t.Elem(), tag, tree.Join(pattern, "*"))}
	case reflect.Slice:
		element := m.value(t.Elem(), tag, pattern)
		if tag.Get("list") == "one" {
			return obj{"anyOf": []obj{element, {"type": "array", "items": element}}}
		}
		return obj{"type": "array", "items": element}
	case reflect.Bool:
		return obj{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		out := obj{"type": "integer"}
		m.number(out, "default", tag.Get("default"))
		m.number(out, "minimum", tag.Get("min"))
		m.number(out, "maximum", tag.Get("max"))
		return out
	case reflect.Float64:
		return obj{"type": "number"}
	case reflect.String:
		out := obj{"type": "string"}
		if enum := tag.Get("enum"); enum != "" {
			out["enum"] = strings.Split(enum, "|")
		}
		switch tag.Get("format") {
		case "namespace":
			out["pattern"] = "^$|" + namespace().String()
		case "window":
			out["pattern"] = "^(hour|day|month|sliding:.+)$"
		case "sha256":
			out["pattern"] = "^[0-9a-fA-F]{64}$"
		case "store":
			out["pattern"] = "^sqlite:"
		case "id":
			out["pattern"] = idPattern().String()
		case "toolname":
			out["pattern"] = toolName().String()
		case "envname":
			out["pattern"] = envName().String()
		}
		m.defaultText(out, tag)
		return out
	default:
		m.t.Errorf("%s: no schema for %s", pattern, t)
		return obj{}
	}
}

func (m schemaMaker) defaultText(out obj, tag reflect.StructTag) {
	if d, ok := tag.Lookup("default"); ok {
		out["default"] = d
	}
}

func (m schemaMaker) number(out obj, key, text string) {
	if text == "" {
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		m.t.Errorf("%s %q is no number", key, text)
	}
	out[key] = n
}

func makeSchema(t *testing.T) []byte {
	t.Helper()
	m := schemaMaker{t, fieldDocs(t)}
	text := func(doc string) obj { return obj{"type": "string", "description": doc} }
	texts := obj{"type": "object", "additionalProperties": obj{"type": []string{"string", "number", "boolean", "null"}}}
	server := obj{
		"type":        "object",
		"description": "One MCP server, as the client it was written for spells it.",
		"properties": obj{
			"type":     text("How the server is reached: stdio, http or sse. Absent: by what the entry names."),
			"command":  obj{"type": []string{"string", "array", "object"}, "description": "The program of a stdio server."},
			"args":     obj{"type": "array", "description": "Its arguments."},
			"env":      texts,
			"envFile":  text("A file of NAME=value lines."),
			"cwd":      text("The working folder."),
			"url":      text("The address of a remote server."),
			"headers":  texts,
			"disabled": obj{"type": "boolean"},
			"enabled":  obj{"type": "boolean"},
		},
	}
	one := obj{"$ref": "#/$defs/server"}
	byName := obj{"type": "object", "additionalProperties": one}
	list := obj{"type": "array", "items": one}
	either := obj{"anyOf": []obj{byName, list}}
	root := obj{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "toolgate",
		"description": "A toolgate file: an MCP client's servers as they are, and what toolgate adds under one key.",
		"type":        "object",
		"properties": obj{
			"mcpServers":      either,
			"mcp_servers":     either,
			"context_servers": byName,
			"servers":         obj{"type": []string{"object", "array"}},
			"mcp":             obj{"type": "object"},
			"extensions":      obj{"type": []string{"object", "array"}},
			"amp.mcpServers":  byName,
			"toolgate":        m.object(reflect.TypeFor[Toolgate](), ""),
		},
		"$defs": obj{"server": server},
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSchema(t *testing.T) {
	want := makeSchema(t)
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(Schema())); diff != "" {
		t.Errorf("schema.json is not what the structs say; run go generate (-want +got):\n%s", diff)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("toolgate.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("toolgate.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, name string, data []byte) error {
	t.Helper()
	root, err := format.ParseDocument(name, data)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := root.JSON()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestGoodFilesMatchSchema(t *testing.T) {
	s := compileSchema(t)
	for _, path := range goodFiles(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, path, data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t)
	for _, text := range []string{
		"toolgate: { listen: { htpp: x } }",
		"toolgate: { spicedb: { endpoint: 1 } }",
		"toolgate: { limits: { body: 16 apples } }",
		"toolgate: { limits: { tools: 0 } }",
		"toolgate: { servers: { a: { protocol: future } } }",
		"toolgate: { auth: { keys: [ { id: a } ] } }",
		"mcpServers: 5",
	} {
		if err := validate(t, s, "x.yaml", []byte(text)); err == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}

// TestAvailabilityNamesSettings keeps the table from naming settings that do
// not exist, and checks that every section is in it.
func TestAvailabilityNamesSettings(t *testing.T) {
	known := map[string]bool{}
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.Pointer:
			walk(typ.Elem(), path)
		case reflect.Slice:
			if typ != rawType {
				walk(typ.Elem(), path)
			}
		case reflect.Map:
			walk(typ.Elem(), tree.Join(path, "*"))
		case reflect.Struct:
			for field := range typ.Fields() {
				p := tree.Join(path, field.Tag.Get("config"))
				known[p] = true
				walk(field.Type, p)
			}
		default:
		}
	}
	walk(reflect.TypeFor[Toolgate](), "")
	for path := range availability {
		if !known[path] {
			t.Errorf("availability names %s, which is no setting", path)
		}
	}
	for path := range known {
		if _, ok := availability[path]; !ok && !strings.Contains(path, ".") {
			t.Errorf("availability does not name the section %s", path)
		}
	}
	if Available("nonsense") || Available("") {
		t.Error("unknown settings must not be available")
	}
}

// TestFormatsExist keeps the tags from naming checks that do not exist.
func TestFormatsExist(t *testing.T) {
	re := regexp.MustCompile(`format:"([a-z0-9]+)"`)
	for _, file := range settingsFiles(t) {
		src, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range re.FindAllStringSubmatch(string(src), -1) {
			if formats[m[1]] == nil && m[1] != "object" {
				t.Errorf("%s names the format %s, which does not exist", file, m[1])
			}
		}
	}
}
