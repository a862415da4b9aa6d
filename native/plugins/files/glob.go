package files

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// glob is a pattern of paths: *, ? and [a-z] match within one part, ** matches any
// number of parts. A pattern without a slash matches in every folder. A match includes
// everything below it.
type glob struct {
	text  string
	parts []string // folded
}

// mostParts bounds the work of one match.
const mostParts = 64

func newGlobs(texts []string) ([]glob, error) {
	out := make([]glob, 0, len(texts))
	for _, text := range texts {
		body := filepath.ToSlash(text)
		if !strings.Contains(body, "/") {
			body = "**/" + body
		}
		g := glob{text: text, parts: split(fold(body))}
		if text == "" || len(g.parts) > mostParts {
			return nil, fmt.Errorf("glob %q: it has no parts, or more than %d", text, mostParts)
		}
		if g.parts[0] != "**" && !filepath.IsAbs(text) {
			return nil, fmt.Errorf("glob %q: it begins neither at a root nor with **/", text)
		}
		for _, part := range g.parts {
			if _, err := path.Match(part, ""); err != nil {
				return nil, fmt.Errorf("glob %q: %w", text, err)
			}
		}
		out = append(out, g)
	}
	return out, nil
}

func split(slashed string) []string {
	return strings.Split(strings.TrimPrefix(slashed, "/"), "/")
}

// matches tells whether the pattern matches a folded real path, or a folder above it.
func (g *glob) matches(folded string) bool {
	parts := split(filepath.ToSlash(folded))
	// now[i] says that the parts read so far match the first i parts of the pattern.
	now := make([]bool, len(g.parts)+1)
	now[0] = true
	for _, part := range parts {
		next := make([]bool, len(now))
		skip(g.parts, now)
		for i, want := range g.parts {
			if !now[i] {
				continue
			}
			if want == "**" {
				next[i] = true
			} else if ok, err := path.Match(want, part); ok && err == nil {
				next[i+1] = true
			}
		}
		if now = next; now[len(g.parts)] {
			return true
		}
	}
	skip(g.parts, now)
	return now[len(g.parts)]
}

// skip lets ** match no parts.
func skip(parts []string, now []bool) {
	for i, want := range parts {
		if now[i] && want == "**" {
			now[i+1] = true
		}
	}
}
