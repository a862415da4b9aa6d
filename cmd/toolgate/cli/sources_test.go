package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/settings"
)

// Every setting, command, metric, column, tool and refusal that the page of the source
// documents names is in the program.
func TestSources(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	read := func(elements ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{docs}, elements...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all := func(pattern ...string) string {
		paths, err := filepath.Glob(filepath.Join(append([]string{docs, ".."}, pattern...)...))
		if err != nil || len(paths) == 0 {
			t.Fatalf("there is nothing like %v: %v", pattern, err)
		}
		var text strings.Builder
		for _, path := range paths {
			one, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(one)
		}
		return text.String()
	}
	metrics, refusals := read("metrics.md"), read("refusals.md")
	native, tables := all("native", "plugins", "*", "*.go"), all("internal", "store", "migrations", "sqlite", "*.sql")
	asking := all("native", "enable", "*.go")
	root := newRoot()
	there := map[string]func(name string) bool{
		"setting": func(name string) bool { return settings.Explain(io.Discard, name) == nil },
		"command": func(name string) bool { return isCommand(root, name) },
		"metric":  func(name string) bool { return strings.Contains(metrics, "| `"+name+"` |") },
		"refusal": func(name string) bool { return strings.Contains(refusals, "| `"+name+"` |") },
		"tool": func(name string) bool {
			group, own, _ := strings.Cut(name, "__")
			if group == "toolgate" {
				return strings.Contains(asking, `{"name":"`+own+`"`)
			}
			return strings.Contains(native, `Name: "`+own+`"`)
		},
		"column": func(name string) bool {
			table, column, _ := strings.Cut(name, ".")
			// A later migration may make a view anew.
			if views := regexp.MustCompile(`(?s)CREATE VIEW `+table+` AS.*?;`).FindAllString(tables, -1); views != nil {
				return regexp.MustCompile(`\b` + column + `\b[^.(]`).MatchString(views[len(views)-1])
			}
			created := regexp.MustCompile(`(?s)CREATE TABLE ` + table + ` \(.*?\n\)`).FindString(tables)
			return regexp.MustCompile(`(?m)^\s+`+column+`\s`).MatchString(created) ||
				regexp.MustCompile(`ALTER TABLE `+table+` ADD COLUMN `+column+`\s`).MatchString(tables)
		},
	}
	// A word for a kind, and the names in back-quotes that follow it.
	named := regexp.MustCompile("\\b(setting|command|metric|refusal|tool|column)s? ((?:`[^`]+`(?:, | and )?)+)")
	found := 0
	for row := range strings.SplitSeq(read("sources.md"), "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			continue
		}
		for _, match := range named.FindAllStringSubmatch(cells[2], -1) {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(match[2], -1) {
				found++
				if !there[match[1]](name[1]) {
					t.Errorf("there is no %s %s:\n%s", match[1], name[1], row)
				}
			}
		}
		for _, line := range regexp.MustCompile("`toolgate ([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			found++
			if !isCommand(root, line[1]) {
				t.Errorf("there is no command toolgate %s:\n%s", line[1], row)
			}
		}
	}
	if found < 100 {
		t.Errorf("the page names %d things", found)
	}
}

// isCommand tells whether a line begins with the words of a command, and has no flag that
// it does not know.
func isCommand(root *cobra.Command, line string) bool {
	words := strings.Fields(line)
	command, rest, err := root.Find(words)
	if err != nil || command == root || command.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "--") {
		return false
	}
	for _, word := range rest {
		name, ok := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); ok && command.Flag(name) == nil && command.InheritedFlags().Lookup(name) == nil {
			return false
		}
	}
	return true
}
