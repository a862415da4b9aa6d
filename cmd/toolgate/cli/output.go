package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/internal/failure"
)

// table is what a command prints: columns for people, the same rows as data
// for programs.
type table struct {
	header []string
	rows   [][]string
	data   any      // for json and yaml
	names  []string // for name
	wide   int      // columns shown only in wide; from the right
}

// outputs are the values of -o.
var outputs = []string{"table", "wide", "json", "yaml", "name"}

// checkOutput refuses an unknown -o before anything is started for it.
func checkOutput(output string) error {
	if !slices.Contains(outputs, output) {
		return failure.Newf(failure.Usage, "unknown output %q; write table, wide, json, yaml or name", output)
	}
	return nil
}

// print writes the table in the format that was asked for.
func (o *options) print(w io.Writer, t table) error {
	switch o.output {
	case "json":
		text, err := json.MarshalIndent(t.data, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", shownJSON(text))
		return err
	case "yaml":
		return writeYAML(w, t.data)
	case "name":
		for _, n := range t.names {
			fmt.Fprintln(w, printable(n))
		}
		return nil
	default:
		columns := len(t.header)
		if o.output != "wide" {
			columns -= t.wide
		}
		return writeColumns(w, t.header[:columns], t.rows, columns)
	}
}

// writeYAML writes data with the names and the order that JSON gives it.
func writeYAML(w io.Writer, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(yamlEscapes(text), &node); err != nil {
		return err
	}
	block(&node)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	_, err = w.Write(yamlEscapes(out.Bytes()))
	return err
}

// yamlEscapes writes characters that a terminal acts on as escapes. YAML may not
// hold all of them as they are, and none stands outside double quotes.
func yamlEscapes(text []byte) []byte {
	return []byte(shown(string(text)))
}

// block takes JSON's flow style and quotes off a tree, but for what needs escapes.
func block(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, actsInText) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		block(c)
	}
}

// printable shows what no terminal acts on: names and arguments come from
// others.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func writeColumns(w io.Writer, header []string, rows [][]string, columns int) error {
	shown := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			shown[i] = append(shown[i], printable(cell))
		}
	}
	rows = shown
	width := make([]int, columns)
	for _, row := range append([][]string{header}, rows...) {
		for i := range min(columns, len(row)) {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	var out strings.Builder
	for _, row := range append([][]string{header}, rows...) {
		var line strings.Builder
		for i := range min(columns, len(row)) {
			line.WriteString(row[i])
			line.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(row[i])+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}
