package schema

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

var fourHex = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// translate spells what ECMA 262 and RE2 both know in the way of RE2.
func translate(pattern string) string {
	if !strings.Contains(pattern, `\u`) || strings.Contains(pattern, `\\`) {
		return pattern // with escaped backslashes it is not clear which is which
	}
	return fourHex.ReplaceAllString(pattern, `\x{$1}`)
}

// patterns adds up what the regular expressions of one schema cost.
type patterns struct {
	bytes, classes, instructions int
}

// add measures a pattern. known is false when RE2 does not know it; it then is
// to be left out. A quarantine says that it is too much.
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
		return 0, false, nil //nolint:nilerr // what is not known is told by known
	}
	instructions = size(tree)
	if p.instructions += instructions; p.instructions > maxInstructions {
		return 0, false, refuse(pointer, "the patterns up to here compile to more than %d instructions", maxInstructions)
	}
	// The compiler of the library has limits of its own; below ours it stays
	// far from them, and what it still refuses is left out like the others.
	if _, err := regexp.Compile(pattern); err != nil {
		return 0, false, nil //nolint:nilerr // as above
	}
	return instructions, true, nil
}

// size estimates from above how many instructions an expression compiles to.
// Its depth is bounded by the parser, at 1000.
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
	default: // the two for itself
	}
	return min(sum, 2*maxInstructions)
}
