package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
)

// What the patterns of an operator may be. Go's regular expressions (RE2) take
// time in the length of the text times that of the program, so both are bounded.
const (
	// MaxPatterns is how many there may be for one tool.
	MaxPatterns = 32
	// MaxPattern is the longest one, in bytes.
	MaxPattern = 1024
	// MaxInstructions is how many instructions one may compile to.
	MaxInstructions = 500
)

// Pattern is one regular expression of an operator (RE2 syntax).
type Pattern struct {
	Name  string // in the mark
	Match string
}

// Check tells what is wrong with an expression, nil when it can be used.
func Check(match string) error {
	_, err := Pattern{Match: match}.compile()
	return err
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
		return nil, fmt.Errorf("it compiles to %d instructions and may compile to %d", n, MaxInstructions)
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
	// window is how much of a text an expression is held against at a time, so
	// that the clock is looked at; overlap how much of the next window that is.
	// A longer match than that may be missed where it crosses the end of one.
	window  = 256 << 10
	overlap = 64 << 10
)

// find looks at the clock before every match: an expression that looks far ahead
// and then takes a little takes quadratic time.
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

// looksBehind tells whether an expression has \B. What else looks at the
// character before (^, \b) matches more in a text that is looked through in
// parts, never less.
func looksBehind(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpNoWordBoundary || slices.ContainsFunc(tree.Sub, looksBehind)
}
