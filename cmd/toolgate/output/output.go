// Package output prints what commands answer, and what they tell a person besides. The texts
// of servers and callers in it do nothing to the terminal.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
)

// Table is the output of a command: columns for people, the same rows as data for
// programs.
type Table struct {
	Header []string
	Rows   [][]string
	Data   any      // for json and yaml
	Names  []string // for name
	Wide   int      // columns shown only in wide; from the right
	Empty  string   // the sentence for a table without rows
}

// Formats are the values of -o.
var Formats = []string{"table", "wide", "json", "yaml", "name"}

// Check refuses an unknown -o before anything is started for it.
func Check(output string) error {
	if !slices.Contains(Formats, output) {
		return failure.Newf(failure.Usage, "unknown output %q; write table, wide, json, yaml or name", output)
	}
	return nil
}

// Print writes a table in one of the formats.
func Print(w io.Writer, format string, t Table) error {
	switch format {
	case "json":
		text, err := json.MarshalIndent(t.Data, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", EscapedJSON(text))
		return err
	case "yaml":
		return YAML(w, t.Data)
	case "name":
		for _, n := range t.Names {
			fmt.Fprintln(w, Printable(n))
		}
		return nil
	default:
		if len(t.Rows) == 0 && t.Empty != "" {
			fmt.Fprintln(w, t.Empty)
			return nil
		}
		to, columns := screen.Of(os.Stdout), len(t.Header) // w leads there
		if format == "wide" {
			to.Width = 0
		} else {
			columns -= t.Wide
		}
		return to.Columns(w, t.Header[:columns], t.Rows)
	}
}

// YAML writes data as YAML, with the names and the order of its JSON.
func YAML(w io.Writer, data any) error {
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

// yamlEscapes escapes characters that a terminal interprets. YAML does not allow all of
// them literally, and they appear only inside double quotes.
func yamlEscapes(text []byte) []byte {
	return []byte(Escaped(string(text)))
}

// block removes JSON's flow style and quotes from a tree, except where a value needs
// escapes.
func block(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, actsInText) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		block(c)
	}
}

// Printable replaces every character that is not printable: names and arguments come from
// others.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Say prints for a person, on stdout. The output of commands comes from servers, callers
// and other people's files, so control characters in it are escaped.
func Say(format string, args ...any) { SayTo(os.Stdout, format, args...) }

// SayTo is [Say] for another writer.
func SayTo(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, Escaped(fmt.Sprintf(format, args...))) // there is nobody to report an error to
}

// Everything that a command tells a person besides its output goes to stderr in one form:
// lines that begin with "toolgate: " say why the command has failed, those with "warning: "
// what a person should look into, and those with "note: " what else is worth knowing. A
// message of several lines goes on in lines that begin with two spaces.

// Warn tells what a person should look into.
func Warn(format string, args ...any) { Tell("warning", format, args...) }

// Note tells what is worth knowing.
func Note(format string, args ...any) { Tell("note", format, args...) }

// Tell writes one message in that form.
func Tell(kind, format string, args ...any) {
	text := strings.TrimRight(Escaped(fmt.Sprintf(format, args...)), "\n")
	Paragraph(os.Stderr, kind+": "+strings.ReplaceAll(text, "\n", "\n  "))
}

// Paragraph writes lines that are broken between words where they lead to a terminal.
func Paragraph(to *os.File, text string) {
	on := screen.Of(to)
	for line := range strings.SplitSeq(Escaped(text), "\n") {
		_, _ = io.WriteString(to, on.Wrap(line)) // there is nobody to report an error to
	}
}

// Ask writes a question, whose answer is typed in the same line. A question that names the
// answers ends with them.
func Ask(question string) {
	if !strings.HasSuffix(question, "]") {
		question += ":"
	}
	SayTo(os.Stderr, "%s ", question)
}

// Escaped escapes every character of a text that a terminal interprets or that changes how
// other characters are displayed. Newlines and tabs stay.
func Escaped(text string) string {
	if !strings.ContainsFunc(text, actsInText) && utf8.ValidString(text) {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if actsInText(r) {
			writeEscape(&b, r, false)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// EscapedJSON replaces these characters in JSON with escapes of the same value. Outside
// strings, JSON has none of them except newlines.
func EscapedJSON(text []byte) []byte {
	if !strings.ContainsFunc(string(text), actsInText) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		if actsInText(r) {
			writeEscape(&b, r, true)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

func actsInText(r rune) bool { return r != '\n' && r != '\t' && logs.Acts(r) }

// writeEscape writes the escape of a character. For JSON, which has no long escapes, it
// writes a surrogate pair if necessary.
func writeEscape(b *strings.Builder, r rune, pair bool) {
	switch {
	case r <= 0xFFFF:
		fmt.Fprintf(b, `\u%04x`, r)
	case pair:
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}
