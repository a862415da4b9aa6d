package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// settingsPages is the folder with a page for each topic of the settings. People write
// these pages; the tables between their markers come from the schema.
const settingsPages = "../docs/configuration"

var settingsBlock = regexp.MustCompile(`(?s)<!-- settings: (\S+) -->\n(.*?)<!-- end -->\n`)

// schemaNode is what the tables need of a JSON Schema.
type schemaNode struct {
	Description          string
	Type                 any
	Enum                 []any
	Const                any
	Pattern              string
	Minimum, Maximum     *float64
	Properties           map[string]*schemaNode
	AdditionalProperties json.RawMessage
	Items                *schemaNode
	AnyOf                []*schemaNode
	Required             []string
}

// values is the schema of the values of a map; nil is any other node.
func (n *schemaNode) values() *schemaNode {
	var values schemaNode
	if json.Unmarshal(n.AdditionalProperties, &values) != nil {
		return nil
	}
	return &values
}

// object is the node that has the settings below n, and what a path to them has in
// addition. A value that may stand alone or in a list has them once.
func (n *schemaNode) object() (*schemaNode, string) {
	if len(n.AnyOf) > 0 {
		return n.AnyOf[0].object()
	}
	if n.Items != nil {
		o, suffix := n.Items.object()
		return o, "[]" + suffix
	}
	if v := n.values(); v != nil && len(n.Properties) == 0 {
		o, suffix := v.object()
		return o, ".NAME" + suffix
	}
	return n, ""
}

// settingsTables writes the tables of all pages. A block of settings that several paths
// share is written for the shortest of them, and the others refer to it.
type settingsTables struct {
	root   *schemaNode
	pages  map[string]string // file name by the path of a table
	tables []string          // their paths, as the pages have them
	first  map[string]string // path by the settings of a block
}

func newSettingsTables(t *testing.T, texts map[string]string) *settingsTables {
	t.Helper()
	var file schemaNode
	if err := json.Unmarshal(Schema(), &file); err != nil {
		t.Fatal(err)
	}
	s := &settingsTables{root: file.Properties["toolgate"], pages: map[string]string{}, first: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, block := range settingsBlock.FindAllStringSubmatch(texts[name], -1) {
			if other, ok := s.pages[block[1]]; ok {
				t.Errorf("%s and %s both have the table of %s", other, name, block[1])
			}
			s.pages[block[1]] = name
			s.tables = append(s.tables, block[1])
		}
	}
	s.blocks("", s.root, nil)
	outermost := s.first
	s.first = map[string]string{}
	s.blocks("", s.root, outermost) // what is in an object that has no table is in none
	return s
}

func (s *settingsTables) blocks(path string, n *schemaNode, outermost map[string]string) {
	o, suffix := n.object()
	if first, ok := outermost[o.key()]; ok && path != "" && len(o.Properties) >= 2 && first != path {
		return
	}
	if len(o.Properties) < 2 {
		suffix = ""
	} else if first, ok := s.first[o.key()]; path != "" && (!ok || s.before(path, first)) {
		s.first[o.key()] = path
	}
	for _, name := range slices.Sorted(maps.Keys(o.Properties)) {
		s.blocks(strings.TrimPrefix(path+suffix+"."+name, "."), o.Properties[name], outermost)
	}
}

func (n *schemaNode) key() string {
	text, err := json.Marshal(n.Properties)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// before tells which of two paths has the block that they share: the shorter one, else the
// one whose table comes first, else that of tools.
func (s *settingsTables) before(a, b string) bool {
	if x, y := strings.Count(a, "."), strings.Count(b, "."); x != y {
		return x < y
	}
	if x, y := s.order(a), s.order(b); x != y {
		return x < y
	}
	return strings.HasSuffix(a, "tools") && !strings.HasSuffix(b, "tools")
}

// find is the node of a path as the tables write it.
func (s *settingsTables) find(path string) *schemaNode {
	n := s.root
	for name := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ""), ".") {
		if name == "NAME" {
			continue
		}
		o, _ := n.object()
		if n = o.Properties[name]; n == nil {
			return nil
		}
	}
	return n
}

// order is the position of the table that has a path.
func (s *settingsTables) order(path string) int {
	return slices.Index(s.tables, s.tableOf(path))
}

// page is the page whose table has a path.
func (s *settingsTables) page(path string) string { return s.pages[s.tableOf(path)] }

func (s *settingsTables) tableOf(path string) string {
	path = strings.ReplaceAll(path, "[]", "")
	for path != "" {
		if _, ok := s.pages[path]; ok {
			return path
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return ""
}

func (s *settingsTables) table(path string) string {
	var b strings.Builder
	b.WriteString("| setting | type | meaning |\n|---|---|---|\n")
	s.rows(&b, path, path, s.find(path))
	return b.String()
}

func (s *settingsTables) rows(b *strings.Builder, table, path string, n *schemaNode) {
	text := n.Description
	o, suffix := n.object()
	first, shared := s.first[o.key()]
	name, apart := s.pages[path]
	apart = apart && path != table
	shared = shared && first != path
	switch {
	case apart && name == s.pages[table]:
		return // the page has a table of it
	case apart:
		text += fmt.Sprintf(" [Another page](%s) has its settings.", name)
	case shared && s.page(first) == s.pages[table]:
		text += fmt.Sprintf(" Same settings as `%s`.", first)
	case shared:
		text += fmt.Sprintf(" Same settings as [`%s`](%s).", first, s.page(first))
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, cell(n.typeText()), cell(text))
	if apart || shared {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.Properties)) {
		s.rows(b, table, path+suffix+"."+name, o.Properties[name])
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// typeText says what a value may be.
func (n *schemaNode) typeText() string {
	var parts []string
	switch t := n.Type.(type) {
	case string:
		parts = append(parts, t)
	case []any:
		for _, one := range t {
			parts = append(parts, fmt.Sprint(one))
		}
	}
	switch {
	case strings.HasPrefix(n.Pattern, "^([0-9]+d|"):
		return "duration"
	case strings.HasPrefix(n.Pattern, "^[0-9]+ *(B|KiB"):
		return "size"
	}
	if n.Items != nil {
		parts = []string{"list of " + plural(n.Items.typeText())}
	}
	if v := n.values(); v != nil && len(n.Properties) == 0 {
		parts = []string{"map of " + plural(v.typeText())}
	}
	for _, one := range n.AnyOf {
		parts = append(parts, one.typeText())
	}
	if n.Const != nil {
		parts = append(parts, fmt.Sprintf("`%v`", n.Const))
	}
	if len(n.Enum) > 0 {
		parts = nil
		for _, one := range n.Enum {
			parts = append(parts, fmt.Sprintf("`%v`", one))
		}
	}
	if parts == nil {
		parts = []string{"any"}
	}
	text := strings.Join(parts, " or ")
	switch {
	case n.Minimum != nil && n.Maximum != nil:
		text += ", " + number(*n.Minimum) + " to " + number(*n.Maximum)
	case n.Minimum != nil && *n.Minimum != 0:
		text += ", at least " + number(*n.Minimum)
	}
	return text
}

// plural is a type in the plural, if it is a word.
func plural(typ string) string {
	word, rest, _ := strings.Cut(typ, " of ")
	word, limits, limited := strings.Cut(word, ",")
	switch word {
	case "string", "object", "integer", "number", "list", "map", "duration", "size":
		word += "s"
	}
	if limited {
		word += "," + limits
	}
	if rest != "" {
		word += " of " + rest
	}
	return word
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func readSettingsPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(settingsPages, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no pages: %v", settingsPages, err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

// TestSettingsPages keeps the tables of the settings equal to the schema: every setting is
// on exactly one page. The limits are in the table of [TestLimitsPage].
func TestSettingsPages(t *testing.T) {
	texts := readSettingsPages(t)
	s := newSettingsTables(t, texts)
	for path := range s.pages {
		if s.find(path) == nil {
			t.Fatalf("%s has a table of %s, which is not a setting", s.pages[path], path)
		}
	}
	for name := range s.root.Properties {
		if name != "limits" && s.pages[name] == "" && s.page(name) == "" && name != "servers" {
			t.Errorf("no page has the setting %s; put the line <!-- settings: %s --> into one", name, name)
		}
	}
	for name, text := range texts {
		now := settingsBlock.ReplaceAllStringFunc(text, func(block string) string {
			path := settingsBlock.FindStringSubmatch(block)[1]
			return "<!-- settings: " + path + " -->\n" + s.table(path) + "<!-- end -->\n"
		})
		if *update {
			if err := os.WriteFile(filepath.Join(settingsPages, name), []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(text, now); diff != "" {
			t.Errorf("%s/%s is stale; run go generate ./config (-page +code):\n%s", settingsPages, name, diff)
		}
	}
}

var yamlBlock = regexp.MustCompile("(?sm)^```yaml\n(.*?)^```$")

// TestSettingsExamples loads every configuration that the documents show, as a gateway would.
// Each page of settings has one.
func TestSettingsExamples(t *testing.T) {
	schema := compileSchema(t)
	opts := testOptions()
	opts.LookupEnv = func(name string) (string, bool) { return "0123456789abcdef0123456789abcdef", name != "" }
	opts.LookupSecret = func(string) (string, error) { return "0123456789abcdef0123456789abcdef", nil }
	opts.Home = t.TempDir()
	texts := readSettingsPages(t)
	for name, text := range texts {
		if !yamlBlock.MatchString(text) {
			t.Errorf("%s has no example", name)
		}
	}
	others, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(others, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts["docs/"+filepath.Base(file)] = string(text)
	}
	for name, text := range texts {
		for i, example := range yamlBlock.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(example[1], "toolgate:") && !strings.HasPrefix(example[1], "mcpServers:") {
				continue // a part of a configuration, or another file
			}
			file := filepath.Join(t.TempDir(), fmt.Sprintf("%s-%d.yaml", filepath.Base(name), i))
			if err := os.WriteFile(file, []byte(example[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := validate(t, schema, file, []byte(example[1])); err != nil {
				t.Errorf("example %d of %s: %v", i+1, name, err)
			}
			c, err := Load(file, opts)
			if err != nil {
				t.Errorf("example %d of %s: %v", i+1, name, err)
				continue
			}
			for _, w := range c.Warnings {
				t.Errorf("example %d of %s: warning: %s", i+1, name, w)
			}
			for i := range c.Servers {
				if r := c.Servers[i].Refused; r != nil {
					t.Errorf("example of %s: server %s: %v", name, c.Servers[i].Key, r)
				}
			}
		}
	}
}

// TestHeadings keeps the words that people search for in the headings of the documents.
func TestHeadings(t *testing.T) {
	var headings []string
	for _, pattern := range []string{"../docs/*.md", settingsPages + "/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "#") {
					headings = append(headings, strings.ToLower(line))
				}
			}
		}
	}
	for _, word := range []string{
		"rate limit", "prompt injection", "quota", "pii", "health check", "oauth", "sandbox", "circuit breaker", "proxy", "proxies", "retry", "retries",
		"timeout", "mtls", "redact", "audit", "policies", "approval",
	} {
		if !slices.ContainsFunc(headings, func(h string) bool { return strings.Contains(h, word) }) {
			t.Errorf("no heading of the documents has %q", word)
		}
	}
}
