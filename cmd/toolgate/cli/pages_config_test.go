package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// schemaNode is what the page of settings needs of a JSON Schema.
type schemaNode struct {
	Description          string
	Type                 any
	Default              json.RawMessage
	Enum                 []any
	Minimum, Maximum     *float64
	Pattern              string
	Properties           map[string]*schemaNode
	AdditionalProperties json.RawMessage
	Items                *schemaNode
	AnyOf                []*schemaNode
	Required             []string
}

// writeSettings writes the page of every setting, from the schema of the file.
func writeSettings(w io.Writer) error {
	var root schemaNode
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`# Settings

These are the settings under the key ` + "`toolgate`" + ` of the file. Every setting is optional unless
it says otherwise. In a path, ` + "`NAME`" + ` is a name that you choose, and ` + "`[]`" + ` is each item of a
list. A flag ` + "`--set PATH=VALUE`" + ` overrides a variable (` + "`TOOLGATE_LISTEN_HTTP` for" + `
` + "`listen.http`" + `), and a variable overrides the file. ` + "`toolgate config show --origin`" + ` says
where each value comes from. An unknown key is an error. ` + "`toolgate config schema`" + ` prints a
JSON Schema for editors.

Put credentials into variables: toolgate replaces ` + "`${NAME}`" + ` with the variable of the
environment. If that is not set, it uses the .env file beside the configuration
(` + "`toolgate.env` for `toolgate.yaml`" + `), which only its owner may be able to read.

This page is generated from the program (` + "`go generate ./cmd/toolgate/cli`" + `).

## Which file

` + searchOrder + "\n")
	top := root.Properties["toolgate"]
	for _, name := range slices.Sorted(maps.Keys(top.Properties)) {
		fmt.Fprintf(&b, "\n## %s\n\n| setting | type | meaning |\n|---|---|---|\n", name)
		settingRows(&b, name, top.Properties[name], false)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func settingRows(b *strings.Builder, path string, n *schemaNode, required bool) {
	text := strings.ReplaceAll(n.Description, "|", `\|`)
	if required && !strings.Contains(text, "Required") {
		text += " Required."
	}
	lookup := strings.NewReplacer(".NAME", ".*", "[]", "").Replace(path)
	if !config.Available(lookup) {
		text += " **Not available in this version.**"
	}
	if text != "" || len(n.Properties) == 0 {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, strings.ReplaceAll(typeText(n), "|", `\|`), strings.TrimSpace(text))
	}
	settingsBelow(b, path, n)
}

func settingsBelow(b *strings.Builder, path string, n *schemaNode) {
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		settingRows(b, path+"."+name, n.Properties[name], slices.Contains(n.Required, name))
	}
	var values schemaNode
	if json.Unmarshal(n.AdditionalProperties, &values) == nil {
		settingsBelow(b, path+".NAME", &values)
	}
	if n.Items != nil {
		settingsBelow(b, path+"[]", n.Items)
	}
	for _, one := range n.AnyOf {
		settingsBelow(b, path, one)
	}
}

// typeText says what a value may be.
func typeText(n *schemaNode) string {
	var parts []string
	switch t := n.Type.(type) {
	case string:
		parts = append(parts, t)
	case []any:
		for _, one := range t {
			parts = append(parts, fmt.Sprint(one))
		}
	}
	if n.Items != nil {
		parts = []string{"list of " + typeText(n.Items)}
	}
	var values schemaNode
	if json.Unmarshal(n.AdditionalProperties, &values) == nil && len(n.Properties) == 0 {
		parts = []string{"map of " + typeText(&values)}
	}
	for _, one := range n.AnyOf {
		parts = append(parts, typeText(one))
	}
	if len(n.Enum) > 0 {
		parts = nil
		for _, one := range n.Enum {
			parts = append(parts, fmt.Sprintf("`%v`", one))
		}
	}
	text := strings.Join(parts, " or ")
	switch {
	case n.Minimum != nil && n.Maximum != nil:
		text += fmt.Sprintf(", %s to %s", numberText(*n.Minimum), numberText(*n.Maximum))
	case n.Minimum != nil && *n.Minimum != 0:
		text += ", at least " + numberText(*n.Minimum)
	}
	return text
}

func numberText(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", f), ".00") }
