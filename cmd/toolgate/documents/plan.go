package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/config"
)

// AsIs is the action for a tool of a file that a configuration names.
const AsIs = "read as it is"

// Item is something that a document has, and what is done with it.
type Item struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Action string `json:"action"`
	File   string `json:"file"`
	// Do is what is left for a person to write; empty for nothing.
	Do string `json:"do,omitempty"`
}

// Plan plans the import of documents into a configuration: its file name and text. The
// names that rules are about get the prefix. It returns the configuration afterwards. An
// error has every line of every document that cannot be kept, and nothing is imported.
func Plan(paths []string, prefix, target string, before []byte) (items []Item, after []byte, err error) {
	var wrong []error
	after = before
	for _, path := range paths {
		switch Of(path) {
		case Rules:
			rules, next, err := AddRules(path, prefix, target, after)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			after = next
			for _, r := range rules {
				items = append(items, Item{Kind: Rules, Name: r.Name, Action: r.Action, File: path})
			}
		case Tools:
			found, err := toolsOf(path, target, before)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			items = append(items, found...)
		case Other, Definitions:
			wrong = append(wrong, fmt.Errorf("%s has servers, or nothing that is known; import it with a command of its own", path))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, nil, err
	}
	return items, after, nil
}

// toolsOf reads a file of tools as a configuration that names it does.
func toolsOf(path, target string, before []byte) ([]Item, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"toolgate": map[string]any{"tool_files": []string{whole}}})
	if err != nil {
		return nil, err
	}
	c, err := config.Parse("x.json", text, config.Options{Raw: true})
	if err != nil {
		return nil, err
	}
	own := whole // as the configuration would name it
	if folder, err := filepath.Abs(filepath.Dir(target)); err == nil {
		if short, err := filepath.Rel(folder, whole); err == nil {
			own = short
		}
	}
	do := fmt.Sprintf("write under toolgate: tool_files: [%s]", filepath.ToSlash(own))
	if there, err := config.Parse(target, before, config.Options{Raw: true}); err == nil && slices.Contains(there.Files, whole) {
		do = ""
	}
	var items []Item
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		items = append(items, Item{
			Kind: Tools, Name: t.Namespace + "__" + t.Name, Action: AsIs, File: path, Do: do,
		})
	}
	return items, nil
}
