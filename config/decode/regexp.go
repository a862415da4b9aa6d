package decode

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
)

const (
	// maxExpression is the longest one in bytes, maxProgram how many
	// instructions it may compile to: matching takes time in both.
	maxExpression = 1024
	maxProgram    = 500
)

// formatRegexp accepts a regular expression (RE2) of a bounded cost that does
// not match everything.
func formatRegexp(text, _ string) (string, string, error) {
	if len(text) > maxExpression {
		return "", "write a shorter one, or several", fmt.Errorf("the expression has %d bytes and may have %d", len(text), maxExpression)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "", "write an expression of RE2, which has no look-around and no back references", fmt.Errorf("is not a regular expression: %w", err)
	}
	if looksBehind(tree) {
		return "", `write \b, or leave it out`, errors.New(`the expression has \B, which a search in parts cannot keep`)
	}
	program, err := syntax.Compile(tree.Simplify())
	switch {
	case err != nil:
		return "", "", err
	case len(program.Inst) > maxProgram:
		return "", "write smaller repetitions", fmt.Errorf("the expression compiles to %d instructions and may compile to %d", len(program.Inst), maxProgram)
	}
	if re, err := regexp.Compile(text); err != nil || re.MatchString("") {
		return "", "write one that needs at least one character", errors.Join(err, errors.New("the expression matches the empty text"))
	}
	return text, "", nil
}

// looksBehind tells whether an expression has \B.
func looksBehind(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpNoWordBoundary || slices.ContainsFunc(tree.Sub, looksBehind)
}
