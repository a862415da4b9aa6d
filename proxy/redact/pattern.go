package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
)

// Limits of an operator's patterns. The time of Go's regular expressions (RE2) grows
// with the length of the text times that of the program, so both are bounded.
const (
	// MaxPatterns bounds the patterns of one tool.
	MaxPatterns = 32
	// MaxPattern bounds the length of one pattern, in bytes.
	MaxPattern = 1024
	// MaxInstructions bounds the compiled program of one pattern.
	MaxInstructions = 500
)

// Pattern is one regular expression of an operator (RE2 syntax).
type Pattern struct {
	// Name that takes the place of a match. Required.
	Name string `config:"name" required:"true" format:"id"`
	// Regular expression (RE2) to redact. Required.
	Match string `config:"match" required:"true" format:"regexp"`
}

func (p Pattern) compile() (*regexp.Regexp, error) {
	if len(p.Match) > MaxPattern {
		return nil, fmt.Errorf("it has %d bytes and may have %d", len(p.Match), MaxPattern)
	}
	tree, err := syntax.Parse(p.Match, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if looksBehind(tree) {
		return nil, errors.New(`it has \B, which a search in parts cannot keep`)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > MaxInstructions {
		return nil, fmt.Errorf("it compiles to %d instructions, more than the %d that are allowed", n, MaxInstructions)
	}
	re, err := regexp.Compile(p.Match)
	if err != nil {
		return nil, err
	}
	if re.MatchString("") {
		return nil, errors.New("it matches the empty text")
	}
	return re, nil
}

type pattern struct {
	name string
	re   *regexp.Regexp
}

const (
	// window is the size of the parts in which a text is searched, so that the clock
	// can be checked in between. overlap is how far two parts overlap. A longer match
	// may be missed where it crosses the end of a part.
	window  = 256 << 10
	overlap = 64 << 10
)

// find checks the clock before every match, because an expression with a long lookahead
// and short matches takes quadratic time.
func (p pattern) find(text string, f *finds) {
	for from := 0; ; from += window - overlap {
		part := text[from:min(from+window, len(text))]
		for at := 0; at < len(part); {
			if f.late = time.Now().After(f.until); f.late {
				return
			}
			found := p.re.FindStringIndex(part[at:])
			if found == nil {
				break
			}
			f.add(from+at+found[0], from+at+found[1], p.name)
			at += max(found[1], found[0]+1)
		}
		if from+window >= len(text) {
			return
		}
	}
}

// looksBehind reports whether an expression has \B. Other assertions about the previous
// character (^, \b) match more in a text that is searched in parts, never less.
func looksBehind(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpNoWordBoundary || slices.ContainsFunc(tree.Sub, looksBehind)
}
