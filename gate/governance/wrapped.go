package governance

import (
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// This file finds paths inside longer texts: after the signs that make programs read a
// file, in quotes, in braces with alternatives, and in member names.

// maxWraps is how many wrappings are removed from one text.
const maxWraps = 16

// unwrapped returns the texts that some programs would read instead of a text: @file
// as curl does, a value after an option or a name, and the text without quotes.
func unwrapped(text string) []string {
	var all []string
	for range maxWraps {
		inner := unwrap(strings.TrimSpace(text))
		if inner == text || inner == "" {
			break
		}
		text = inner
		all = append(all, inner)
	}
	return all
}

func unwrap(text string) string {
	switch {
	case text == "":
		return ""
	case strings.ContainsAny(text, "\"'`"):
		return strings.NewReplacer(`"`, "", "'", "", "`", "").Replace(text)
	case text[0] == '@' || text[0] == '<' || text[0] == '>':
		return text[1:]
	case text[0] == '-':
		if i := strings.IndexAny(text, "=@/~"); i > 0 {
			return strings.TrimPrefix(strings.TrimPrefix(text[i:], "="), "@")
		}
	default:
		name, value, found := strings.Cut(text, "=")
		if found && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" {
			return value
		}
	}
	return text
}

// braces returns the expansions of {a,b} in a text, as a shell makes them; nil where
// there are none. If there are more than the limit, it returns more than the limit,
// and some may still contain braces.
func braces(text string) []string {
	var all []string
	open := []string{text}
	for len(open) > 0 && len(all)+len(open) <= maxStages {
		one := open[len(open)-1]
		open = open[:len(open)-1]
		from, end := firstBraces(one)
		if end == 0 {
			all = append(all, one)
			continue
		}
		for _, part := range alternatives(one[from+1 : end]) {
			if open = append(open, one[:from]+part+one[end+1:]); len(all)+len(open) > maxStages {
				break
			}
		}
	}
	if all = append(all, open...); len(all) == 1 {
		return nil
	}
	return all
}

// firstBraces returns the start and end of the first braces with alternatives; end is
// 0 where there are none.
func firstBraces(text string) (first, end int) {
	type pair struct {
		at      int
		several bool // there is a comma between them
		dots    bool // there is .. somewhere between them
	}
	var open []pair
	for i := range len(text) {
		if text[i] == '{' {
			open = append(open, pair{at: i})
			continue
		}
		if len(open) == 0 {
			continue
		}
		last := &open[len(open)-1]
		switch text[i] {
		case ',':
			last.several = true
		case '.':
			last.dots = last.dots || text[i-1] == '.'
		case '}':
			closed := *last
			open = open[:len(open)-1]
			if len(open) > 0 && closed.dots {
				open[len(open)-1].dots = true
			}
			named := closed.at > 0 && text[closed.at-1] == '$'
			if (closed.several || closed.dots) && !named && (end == 0 || closed.at < first) {
				first, end = closed.at, i
			}
		}
	}
	return first, end
}

// alternatives returns the alternatives between braces: the texts between commas, or
// for a range like a..z a wildcard and the text itself.
func alternatives(inner string) []string {
	var parts []string
	depth, from := 0, 0
	for i := range len(inner) {
		switch inner[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, inner[from:i]), i+1
			}
		}
	}
	if parts == nil {
		return []string{"?", inner}
	}
	return append(parts, inner[from:])
}

// wild tells whether a reading contains wildcards.
func (r reading) wild() bool { return slices.ContainsFunc(r.segments, wildcard) }

func wildcard(segment string) bool { return strings.ContainsAny(segment, "*?[") }

// climbsByWildcard tells whether a wildcard may match "..", as .* does in some shells.
func (r reading) climbsByWildcard() bool {
	return slices.ContainsFunc(r.segments, func(s string) bool {
		return wildcard(s) && strings.HasPrefix(s, ".") && matchSegment(s, "..")
	})
}

// mayForbid tells whether a wildcard reading may match a file under the glob. A glob
// without a folder matches only names with some literal text: * alone lists a folder,
// and says nothing about one file.
func (g *pathGlob) mayForbid(r reading) bool {
	if g.remote != r.remote || r.remote || !r.wild() {
		return false
	}
	pattern, anywhere := g.pattern(r), false
	for len(pattern) > 0 && pattern[0] == "**" {
		pattern, anywhere = pattern[1:], true
	}
	segments := g.segmentsOf(r)
	if !r.absolute && !anywhere {
		return false // of a folder that is not known here
	}
	return overlap(pattern, segments, !anywhere)
}

// overlap tells whether a pattern may match the first segments of a path that are
// patterns themselves. With all, * and ** may stand for any names. Without it, the
// pattern may begin at any segment, and each name needs some literal text.
func overlap(pattern, segments []string, all bool) bool {
	at := make([]bool, len(segments)+1)
	for j := range at {
		at[j] = j == 0 || !all
	}
	skip := func(row []bool) { // ** may be no name
		for j, segment := range segments {
			row[j+1] = row[j+1] || row[j] && segment == "**"
		}
	}
	skip(at)
	for _, part := range pattern {
		next := make([]bool, len(at))
		for j := range at {
			switch {
			case part == "**":
				next[j] = at[j] || j > 0 && next[j-1]
			case j == 0:
			case segments[j-1] == "**":
				next[j] = all && (at[j] || at[j-1])
			default:
				next[j] = at[j-1] && overlapSegment(part, segments[j-1], all)
			}
		}
		skip(next)
		at = next
	}
	return slices.Contains(at, true)
}

// overlapSegment tells whether two patterns for one name may match the same name.
func overlapSegment(a, b string, all bool) bool {
	b = strings.ReplaceAll(b, "[!", "[^")
	if !all && strings.Trim(b, "*?") == "" {
		return false
	}
	switch {
	case !wildcard(a):
		return a == b || matchSegment(b, a)
	case !wildcard(b):
		return matchSegment(a, b)
	}
	// The texts before the first wildcard and after the last must agree.
	first, other := a[:strings.IndexAny(a, "*?[")], b[:strings.IndexAny(b, "*?[")]
	last, tail := a[strings.LastIndexAny(a, "*?]")+1:], b[strings.LastIndexAny(b, "*?]")+1:]
	if !all && (first == "" || other == "") && (last == "" || tail == "") {
		return false
	}
	return (strings.HasPrefix(first, other) || strings.HasPrefix(other, first)) &&
		(strings.HasSuffix(last, tail) || strings.HasSuffix(tail, last))
}

// keysOf appends the member names that are paths: within a path argument, every name
// with a slash; elsewhere, the names that are clearly paths.
func keysOf(leaves []leaf, value any, place string, within bool) []leaf {
	switch value := value.(type) {
	case map[string]any:
		is := func(key string) bool { return isPath(key) || within && strings.ContainsAny(key, `/\`) }
		var keys []string // mostly none
		for key, member := range value {
			if nests(member) || is(key) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			at := place + "/" + mcp.PointerToken(key)
			if is(key) {
				leaves = append(leaves, leaf{at, key, true})
			}
			leaves = keysOf(leaves, value[key], at, within || PathName(key))
		}
	case []any:
		for i, element := range value {
			leaves = keysOf(leaves, element, place+"/"+strconv.Itoa(i), within)
		}
	}
	return leaves
}

// nests tells whether a value may have members.
func nests(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// isPath tells whether a name is clearly a path.
func isPath(name string) bool {
	if len(name) < 2 || !strings.ContainsAny(name, `/\:$%`) {
		return false
	}
	for _, prefix := range []string{"/", "~/", "./", "../", `.\`, `..\`, `\\`, "$HOME", "${HOME}", "%USERPROFILE%"} {
		if strings.HasPrefix(name, prefix) && len(name) > len(prefix) {
			return true
		}
	}
	return drive.MatchString(name) || len(name) > 5 && strings.EqualFold(name[:5], "file:")
}
