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
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/native/declared"
)

var update = flag.Bool("update", false, "rewrite generated files and goldens")

// obj is a JSON object; encoding/json sorts its keys, so output is stable.
type obj = map[string]any

// fieldDocs are the doc comments of struct fields by the folder of their package,
// which is read when the first of its types is asked for, and by "Type.Field".
type fieldDocs map[string]map[string]string

// of is the doc comment of a field of a struct, or of one that is embedded in it.
func (d fieldDocs) of(t *testing.T, typ reflect.Type, f reflect.StructField) string {
	t.Helper()
	for _, i := range f.Index[:len(f.Index)-1] {
		typ = typ.Field(i).Type
	}
	folder, ok := strings.CutPrefix(typ.PkgPath(), "github.com/toolgate/toolgate/")
	if !ok {
		t.Fatalf("%s is not a type of this module", typ)
	}
	if d[folder] == nil {
		d[folder] = readDocs(t, filepath.Join("..", filepath.FromSlash(folder)))
	}
	return d[folder][typ.Name()+"."+f.Name]
}

func readDocs(t *testing.T, folder string) map[string]string {
	t.Helper()
	docs := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
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
	docs fieldDocs
}

func (m schemaMaker) object(t reflect.Type, pattern string) obj {
	props := obj{}
	var required []string
	for _, f := range decode.Fields(t) {
		key := f.Tag.Get("config")
		if key == "" {
			m.t.Errorf("%s.%s has no config tag", t.Name(), f.Name)
		}
		doc := m.docs.of(m.t, t, f)
		if !strings.Contains(doc, "Default: ") && !strings.Contains(doc, "Required") {
			m.t.Errorf("the doc comment of %s.%s does not say what its default is", t.Name(), f.Name)
		}
		path := tree.Join(pattern, key)
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
	case t == reflect.TypeFor[json.RawMessage]():
		if tag.Get("format") == "object" {
			return obj{"type": "object"}
		}
		return obj{}
	case t == reflect.TypeFor[time.Duration]():
		out := obj{"type": "string", "pattern": `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`}
		m.defaultText(out, tag)
		return out
	case t == reflect.TypeFor[units.Size]():
		out := obj{"type": []string{"string", "integer"}, "pattern": `^[0-9]+ *(B|KiB|MiB|GiB|[kK]B|MB|GB)?$`, "minimum": 0}
		m.defaultText(out, tag)
		return out
	case t == reflect.TypeFor[units.Priority]():
		return obj{"anyOf": []obj{{"type": "integer"}, {"enum": units.Priorities}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem(), tag, pattern)
	case reflect.Struct:
		if t == reflect.TypeFor[budget.PlanSettings]() {
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
			out["pattern"] = "^$|" + decode.Pattern("namespace").String()
		case "window":
			out["pattern"] = "^(hour|day|month|sliding:.+)$"
		case "sha256":
			out["pattern"] = "^[0-9a-fA-F]{64}$"
		case "store":
			out["pattern"] = "^(sqlite:|postgres(ql)?://)"
		case "id", "toolname", "envname":
			out["pattern"] = decode.Pattern(tag.Get("format")).String()
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
		m.t.Errorf("%s %q is not a number", key, text)
	}
	out[key] = n
}

func makeSchema(t *testing.T) []byte {
	t.Helper()
	m := schemaMaker{t, fieldDocs{}}
	text := func(doc string) obj { return obj{"type": "string", "description": doc} }
	texts := obj{"type": "object", "additionalProperties": obj{"type": []string{"string", "number", "boolean", "null"}}}
	server := obj{
		"type":        "object",
		"description": "One MCP server, as the client it was written for spells it.",
		"properties": obj{
			"type":     text("How the server is reached: stdio, http or sse. Default: by what the entry names."),
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

// settings calls visit with every setting below a type and its path.
func settings(typ reflect.Type, path string, visit func(f reflect.StructField, path string)) {
	switch typ.Kind() {
	case reflect.Pointer:
		settings(typ.Elem(), path, visit)
	case reflect.Slice:
		if typ != reflect.TypeFor[json.RawMessage]() {
			settings(typ.Elem(), path, visit)
		}
	case reflect.Map:
		settings(typ.Elem(), tree.Join(path, "*"), visit)
	case reflect.Struct:
		for _, f := range decode.Fields(typ) {
			p := tree.Join(path, f.Tag.Get("config"))
			visit(f, p)
			settings(f.Type, p, visit)
		}
	default:
	}
}

// TestRemoved keeps the list of removed settings from naming one that exists.
func TestRemoved(t *testing.T) {
	settings(reflect.TypeFor[Toolgate](), "", func(_ reflect.StructField, path string) {
		if removed[path] != "" {
			t.Errorf("%s is in the list of removed settings, and exists", path)
		}
	})
	for path, hint := range removed {
		_, err := Parse("x.yaml", []byte("toolgate: { "+strings.Replace(path, ".", ": { ", 1)+": 1 } }"), Options{})
		if want := path + ": is not a setting; " + hint; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The figures that the settings are held to. A new one has to take the place of another.
const (
	maxSettings = 553 // on the pages by topic
	maxLimits   = 45  // on the page of limits
)

// TestSettingsAreFew counts what a person has to read, as the pages have it: a block of
// settings that several paths share counts once.
func TestSettingsAreFew(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `")
	count := 0
	for _, text := range readSettingsPages(t) {
		for _, block := range settingsBlock.FindAllString(text, -1) {
			count += len(rows.FindAllString(block, -1))
		}
	}
	limits := len(decode.Fields(reflect.TypeFor[Limits]()))
	t.Logf("%d settings, %d limits", count, limits)
	if count == 0 || count > maxSettings || limits > maxLimits {
		t.Errorf("the pages have %d settings and %d limits; at most %d and %d are allowed", count, limits, maxSettings, maxLimits)
	}
}

// TestFormatsExist keeps the tags from naming checks that do not exist.
func TestFormatsExist(t *testing.T) {
	visit := func(f reflect.StructField, path string) {
		if name, ok := f.Tag.Lookup("format"); ok && !decode.Known(name) {
			t.Errorf("%s names the format %s, which does not exist", path, name)
		}
	}
	settings(reflect.TypeFor[Toolgate](), "", visit)
	settings(reflect.TypeFor[declared.File](), "tool_files", visit)
	settings(reflect.TypeFor[registry.Seed](), "registry.seed", visit)
}
