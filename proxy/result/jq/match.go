package jq

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

const (
	maxPattern      = 1000   // bytes of a regular expression
	maxInstructions = 20_000 // of a compiled one
	// maxSearch bounds one search: bytes of the text times the instructions of the
	// expression. RE2 takes about as many operations in the worst case.
	maxSearch = 16_000_000
)

// match returns the matches of a regular expression in a text as jq has them, or
// whether there is any.
func (m *meter) match(v any, re, flags string, test bool) any {
	text, ok := v.(string)
	if !ok {
		return errors.New("a regular expression searches a text, and this is none")
	}
	if m.check(); m.why != "" { // to compile one may take long
		return errStopped
	}
	expression, instructions, err := compile(re, flags)
	if err != nil {
		return err
	}
	search := int64(len(text)+1) * int64(instructions)
	if search > maxSearch {
		return m.stop("a regular expression in it is too complex for a text of this size")
	}
	if err := m.charge(int64(instructions)*sizeMember, search/256+int64(instructions)); err != nil {
		return err
	}
	if test {
		return expression.MatchString(text)
	}
	most := 1
	if strings.ContainsRune(flags, 'g') {
		most = -1
		if err := m.rehearse(expression, text, search/256); err != nil {
			return err
		}
	}
	return m.matches(expression, text, expression.FindAllStringSubmatchIndex(text, most))
}

// rehearse searches all matches once, and stops the run if that takes too much: each
// match costs as much as the rest of the text is long, and only a callback between the
// matches can end a search.
func (m *meter) rehearse(expression *regexp.Regexp, text string, each int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != errStopped { //nolint:errorlint // it is this very value
				panic(p)
			}
			err = errStopped
		}
	}()
	expression.ReplaceAllStringFunc(text, func(string) string {
		m.check() // of the time, too
		if err := m.charge(int64(expression.NumSubexp()+1)*4*sizeMember*2, each/64+16); err != nil {
			panic(err)
		}
		return ""
	})
	return nil
}

// compile returns a regular expression and the number of its instructions.
func compile(re, flags string) (*regexp.Regexp, int, error) {
	for _, flag := range flags {
		switch flag {
		case 'g':
		case 'i':
			re = "(?i)" + re
		case 'm':
			re = "(?s)" + re
		default:
			return nil, 0, fmt.Errorf("the flags of a regular expression are g, i and m, and not %q", flags)
		}
	}
	if len(re) > maxPattern {
		return nil, 0, fmt.Errorf("a regular expression may have %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("the regular expression does not compile: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, fmt.Errorf("the regular expression does not compile: %w", err)
	}
	if len(program.Inst) > maxInstructions {
		return nil, 0, errors.New("the regular expression is too complex")
	}
	expression, err := regexp.Compile(re)
	return expression, len(program.Inst), err
}

// matches turns positions in bytes into the objects of jq, with positions in
// characters.
func (m *meter) matches(expression *regexp.Regexp, text string, found [][]int) any {
	out, names := make([]any, len(found)), expression.SubexpNames()
	at, characters := 0, 0 // where the last match begins
	for i, x := range found {
		characters, at = characters+utf8.RuneCountInString(text[at:x[0]]), x[0]
		position := func(b int) int {
			if b < at {
				return characters - utf8.RuneCountInString(text[b:at])
			}
			return characters + utf8.RuneCountInString(text[at:b])
		}
		captures := make([]any, len(x)/2-1)
		for j := range captures {
			var name any
			if names[j+1] != "" {
				name = names[j+1]
			}
			from, to := x[2*j+2], x[2*j+3]
			if from < 0 {
				captures[j] = map[string]any{"name": name, "offset": -1, "length": 0, "string": nil}
				continue
			}
			captures[j] = map[string]any{"name": name, "offset": position(from), "length": utf8.RuneCountInString(text[from:to]), "string": text[from:to]}
		}
		if err := m.charge(int64(len(captures)+1)*4*sizeMember, int64(x[1]-x[0])/8+1); err != nil {
			return err
		}
		out[i] = map[string]any{
			"offset": characters, "length": utf8.RuneCountInString(text[x[0]:x[1]]), "string": text[x[0]:x[1]], "captures": captures,
		}
	}
	return out
}

// Search is a regular expression for single lines. It is safe for concurrent use.
type Search struct {
	expression   *regexp.Regexp
	instructions int
}

// NewSearch compiles a regular expression (RE2) within the bounds of a program's.
func NewSearch(pattern string) (*Search, error) {
	expression, instructions, err := compile(pattern, "")
	return &Search{expression, instructions}, err
}

// In reports whether a line matches, and where the match begins. ok is false where the
// line is too long for the expression.
func (s *Search) In(line string) (at int, found, ok bool) {
	if int64(len(line)+1)*int64(s.instructions) > maxSearch {
		return 0, false, false
	}
	where := s.expression.FindStringIndex(line)
	if where == nil {
		return 0, false, true
	}
	return where[0], true, true
}
