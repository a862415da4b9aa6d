package format

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/toolgate/toolgate/config/tree"
)

// Bounds of one document. A file beyond them is refused, not read in part.
const (
	// MaxFileSize is the largest file read, in bytes.
	MaxFileSize = 4 << 20
	// MaxDepth is how deep lists and maps may nest.
	MaxDepth = 100
	// MaxNodes is how many values a document may have, YAML aliases counted
	// as often as they are used. MaxTOMLNodes is the same for TOML, whose
	// library takes time by the square of them.
	MaxNodes     = 200_000
	MaxTOMLNodes = 10_000
)

// Format is the language of a file.
type Format uint8

// The formats. FormatUnknown asks for sniffing.
const (
	Unknown Format = iota
	JSON           // JSON, with comments and trailing commas
	YAML
	TOML
	Python // a module that assigns a dict to MCP_SERVERS
)

// ParseDocument reads one file into a tree. The format is that of the name's
// extension, else it is guessed from the contents. An empty file is an empty
// map. Errors are of type *[tree.Error], one per fault, joined.
//
// Repeated keys, several YAML documents in one file, and anything beyond
// [MaxFileSize], [MaxDepth] or [MaxNodes] are errors.
func ParseDocument(name string, data []byte) (*tree.Node, error) {
	p := &tree.Problems{File: name}
	root := Read(p, name, data)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return root, nil
}

func Read(p *tree.Problems, name string, data []byte) *tree.Node {
	if len(data) > MaxFileSize {
		p.At(nil, "", "", "the file is larger than %d MiB", MaxFileSize>>20)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if line := invalidUTF8Line(data); line > 0 {
		p.At(&tree.Node{Line: line, Column: 1}, "", "save it as UTF-8", "the file is not valid UTF-8")
		return nil
	}
	var root *tree.Node
	var err error
	switch formatOf(name, data) {
	case JSON:
		root, err = parseJSON(data)
	case TOML:
		root, err = parseTOML(data)
	case Python:
		root, err = parsePython(data)
	default:
		root, err = parseYAML(data)
	}
	if err != nil {
		var se *syntaxError
		if !errors.As(err, &se) {
			se = &syntaxError{problem: err.Error()}
		}
		p.At(&tree.Node{Line: max(se.line, 1), Column: max(se.column, 1)}, se.key, se.hint, "%s", se.problem)
		return nil
	}
	return root
}

// syntaxError is a fault found while building the tree.
type syntaxError struct {
	line, column       int
	key, problem, hint string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.problem) }

func duplicateKey(key string, line, column, firstLine int) error {
	return &syntaxError{
		line: line, column: column, key: key,
		problem: fmt.Sprintf("this key is already on line %d", firstLine),
		hint:    "remove one of the two",
	}
}

// under completes the path of a repeated key on the way out of the tree.
func under(key string, err error) error {
	var se *syntaxError
	if errors.As(err, &se) && se.key != "" {
		se.key = tree.Join(key, se.key)
	}
	return err
}

func tooDeep(line, column int) error {
	return &syntaxError{line: line, column: column, problem: fmt.Sprintf("lists and maps nest deeper than %d", MaxDepth)}
}

func tooMany(line, column, limit int) error {
	return &syntaxError{line: line, column: column, problem: fmt.Sprintf("the document has more than %d values", limit)}
}

func formatOf(name string, data []byte) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc", ".json5", ".code-workspace":
		return JSON
	case ".yaml", ".yml":
		return YAML
	case ".toml":
		return TOML
	case ".py":
		return Python
	}
	return sniff(data)
}

var (
	tomlTable = lazily(`^\[\[?\s*[A-Za-z0-9_."'-]+\s*\]?\]\s*(#.*)?$`)
	tomlPair  = lazily(`^[A-Za-z0-9_."'-]+\s*=`)
)

// lazily compiles an expression at its first use.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// sniff guesses by the first line that says something.
func sniff(data []byte) Format {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
			continue
		case line[0] == '{' || bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("/*")):
			return JSON
		case tomlTable().Match(line) || tomlPair().Match(line):
			return TOML
		}
		return YAML
	}
	return YAML
}

func invalidUTF8Line(data []byte) int {
	if utf8.Valid(data) {
		return 0
	}
	line := 1
	for l := range bytes.Lines(data) {
		if !utf8.Valid(l) {
			return line
		}
		line++
	}
	return line
}

// positions turns byte offsets into lines and columns, by a table of where
// lines start.
type positions struct{ starts []int }

func newPositions(data []byte) positions {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return positions{starts}
}

func (p positions) at(offset int) (line, column int) {
	lo, hi := 0, len(p.starts)
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if p.starts[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1, offset - p.starts[lo] + 1
}
