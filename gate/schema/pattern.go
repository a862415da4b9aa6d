package schema

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

var fourHex = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// translate rewrites the syntax that ECMA 262 and RE2 spell differently.
func translate(pattern string) string {
	if !strings.Contains(pattern, `\u`) || strings.Contains(pattern, `\\`) {
		return pattern // escaped backslashes make the escapes ambiguous
	}
	return fourHex.ReplaceAllString(pattern, `\x{$1}`)
}

// patterns adds up the cost of a schema's regular expressions.
type patterns struct {
	bytes, classes, instructions int
}

// add measures a pattern. known is false when RE2 does not support it; the pattern
// must then be removed. A quarantine says that the cost is too high.
func (p *patterns) add(pointer, pattern string) (instructions int, known bool, err error) {
	p.bytes += len(pattern)
	p.classes += strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	switch {
	case len(pattern) > MaxPattern:
		return 0, false, refuse(pointer, "the pattern has %d bytes and may have %d", len(pattern), MaxPattern)
	case p.bytes > maxPatterns:
		return 0, false, refuse(pointer, "the patterns up to here have more than %d bytes together", maxPatterns)
	case p.classes > maxClasses:
		return 0, false, refuse(pointer, "the patterns up to here have more than %d Unicode classes", maxClasses)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, false, nil //nolint:nilerr // known reports it
	}
	instructions = size(tree)
	if p.instructions += instructions; p.instructions > maxInstructions {
		return 0, false, refuse(pointer, "the patterns up to here compile to more than %d instructions", maxInstructions)
	}
	// The compiler of the library has its own limits. Patterns within ours stay far
	// below them. Patterns that it still refuses are removed like the others.
	if _, err := regexp.Compile(pattern); err != nil {
		return 0, false, nil //nolint:nilerr // as above
	}
	return instructions, true, nil
}

// size returns an upper estimate of the instructions that an expression compiles to.
// The parser bounds its depth, at 1000.
func size(re *syntax.Regexp) int {
	sum := 2
	for _, sub := range re.Sub {
		sum += size(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		sum += len(re.Rune)
	case syntax.OpCharClass:
		sum += len(re.Rune) / 16
	case syntax.OpRepeat:
		times := re.Max
		if times < re.Min {
			times = re.Min + 1
		}
		sum *= max(1, times)
	default: // two for the operator itself
	}
	return min(sum, 2*maxInstructions)
}
