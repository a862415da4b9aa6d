package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
)

// Map is a map whose keys have an order. Values are texts, numbers of type int,
// booleans, lists of texts, Maps and lists of Maps.
type Map []Field

// Field is one entry of a Map.
type Field struct {
	Key   string
	Value any
}

// ErrByHand is that a file cannot be changed without touching the rest of it.
var ErrByHand = errors.New("the file cannot be changed without touching the rest of it")

// Set gives a key below the map at a path a value, whether or not it had one, and
// makes the maps of the path that are absent. The name of the file says its
// format, as in [config.ParseDocument].
func Set(name string, data []byte, path []string, key string, value Map) ([]byte, error) {
	before, err := format.ParseDocument(name, data)
	if err != nil {
		return nil, err
	}
	var out []byte
	switch languageOf(name, data) {
	case format.TOML:
		out, err = setTOML(data, path, key, value)
	case format.YAML:
		out, err = setYAML(data, path, key, value)
	default:
		out, err = setJSON(data, path, key, value)
	}
	if err != nil {
		return nil, err
	}
	return out, verify(name, before, out, path, key, value)
}

// Delete takes a key away from the map at a path. Where it is not there, the file
// stays as it is.
func Delete(name string, data []byte, path []string, key string) ([]byte, error) {
	before, err := format.ParseDocument(name, data)
	if err != nil {
		return nil, err
	}
	if at(before, path).Get(key) == nil {
		return data, nil
	}
	var out []byte
	switch languageOf(name, data) {
	case format.TOML:
		out, err = deleteTOML(data, path, key)
	case format.YAML:
		out, err = deleteYAML(data, path, key)
	default:
		out, err = deleteJSON(data, path, key)
	}
	if err != nil {
		return nil, err
	}
	return out, verify(name, before, out, path, key, nil)
}

// Whole is a file that holds a Map alone.
func Whole(name string, value Map) []byte {
	switch languageOf(name, nil) {
	case format.YAML:
		return []byte(yamlMap(value, ""))
	case format.TOML:
		return []byte(tomlTable(nil, value))
	default:
		return append([]byte(jsonText(value, "", "  ")), '\n')
	}
}

// Text is an entry as it stands in a file of a format, for a person to write by
// hand.
func Text(name string, path []string, key string, value Map) string {
	switch languageOf(name, nil) {
	case format.TOML:
		return tomlTable(append(slices.Clone(path), key), value)
	default:
		m := Map{{key, value}}
		for _, p := range slices.Backward(path) {
			m = Map{{p, m}}
		}
		return string(Whole(name, m))
	}
}

// format tells the language of a file: by its name, and without one that says so
// JSON, which is what clients have.
func languageOf(name string, data []byte) format.Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return format.YAML
	case ".toml":
		return format.TOML
	case ".json", ".jsonc", ".json5", ".code-workspace":
		return format.JSON
	}
	if trimmed := strings.TrimSpace(string(data)); trimmed != "" && trimmed[0] != '{' && trimmed[0] != '/' {
		return format.YAML
	}
	return format.JSON
}

func at(n *tree.Node, path []string) *tree.Node {
	for _, key := range path {
		n = n.Get(key)
	}
	return n
}

// verify holds a file after an edit against the one before: a nil value is that
// the key is gone.
func verify(name string, before *tree.Node, data []byte, path []string, key string, value Map) error {
	after, err := format.ParseDocument(name, data)
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrByHand, err)
	}
	left, err := without(before, path, key)
	if err != nil {
		return err
	}
	right, err := without(after, path, key)
	if err != nil {
		return err
	}
	if left != right {
		return fmt.Errorf("%w: the rest of it would change", ErrByHand)
	}
	got := at(after, path).Get(key)
	if value == nil {
		if got != nil {
			return fmt.Errorf("%w: %s would still be there", ErrByHand, key)
		}
		return nil
	}
	text, err := got.JSON()
	if err != nil {
		return err
	}
	if sorted(text) != sorted([]byte(jsonText(value, "", ""))) {
		return fmt.Errorf("%w: %s would become something else", ErrByHand, key)
	}
	return nil
}

// without renders a document less one key, and less the maps on the way to it that
// have nothing else.
func without(n *tree.Node, path []string, key string) (string, error) {
	pruned := prune(n, append(slices.Clone(path), key))
	if pruned == nil {
		return "{}", nil
	}
	text, err := pruned.JSON()
	return string(text), err
}

func prune(n *tree.Node, path []string) *tree.Node {
	if n == nil || n.Kind == tree.KindNull {
		return nil
	}
	if n.Kind != tree.KindMap {
		return n
	}
	own := *n
	own.Fields = nil
	for _, f := range n.Fields {
		if f.Key == path[0] {
			if len(path) == 1 {
				continue
			}
			if f.Value = prune(f.Value, path[1:]); f.Value == nil {
				continue
			}
		}
		own.Fields = append(own.Fields, f)
	}
	if len(own.Fields) == 0 {
		return nil
	}
	return &own
}

// sorted renders JSON with the keys of its maps in order: tables of TOML come
// after the other keys of a map.
func sorted(text []byte) string {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return string(text)
	}
	out, err := json.Marshal(value)
	if err != nil {
		return string(text)
	}
	return string(out)
}
