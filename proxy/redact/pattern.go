package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
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

func (p pattern) find(text string, f *finds) {
	for _, at := range p.re.FindAllStringIndex(text, -1) {
		f.add(at[0], at[1], p.name)
	}
}
