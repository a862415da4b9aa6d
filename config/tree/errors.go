package tree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxErrors bounds how many faults of one file are reported.
const MaxErrors = 100

// Error is one fault of a configuration, addressed to the person who wrote it.
type Error struct {
	// File is the path as it was given, or the flag or variable at fault.
	File string
	// Line and Column are where, from 1; 0 where there is no such place.
	Line, Column int
	// Key is the path of the value, as in servers.github.timeouts.call.
	Key string
	// Problem says what is wrong; Hint what to write instead ("" where
	// there is nothing better to say).
	Problem, Hint string

	Err error // what the problem came from, for errors.Is
}

// Error renders "file:line: key: problem; hint", leaving out what is absent.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		if e.File != "" {
			b.WriteByte(':')
		} else {
			b.WriteString("line ")
		}
		fmt.Fprintf(&b, "%d", e.Line)
	}
	if e.Key != "" && e.File != "flag "+e.Key {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Key)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap returns what the problem came from, or nil.
func (e *Error) Unwrap() error { return e.Err }

// Warning is something a person should know about a file that is used anyway.
type Warning struct {
	File string
	Line int
	Key  string
	Text string
}

// String renders the warning as [Error.Error] does.
func (w Warning) String() string {
	return (&Error{File: w.File, Line: w.Line, Key: w.Key, Problem: w.Text}).Error()
}

// Because makes the last fault that was added one that came from err.
func (p *Problems) Because(err error) {
	if err != nil && len(p.List) > 0 {
		p.List[len(p.List)-1].Err = err
	}
}

// Problems collects the faults of one file.
type Problems struct {
	File string
	List []*Error
}

// At adds a fault at a node. The place of an overriding value is the flag or
// variable that gave it.
func (p *Problems) At(n *Node, key, hint, format string, args ...any) {
	e := &Error{File: p.File, Key: key, Problem: fmt.Sprintf(format, args...), Hint: hint}
	switch {
	case n == nil:
	case n.Origin != nil:
		e.File = n.Origin.String()
	default:
		e.Line, e.Column = n.Line, n.Column
	}
	p.List = append(p.List, e)
}

// AtField adds a fault at the key of a field rather than at its value.
func (p *Problems) AtField(f Field, key, hint, format string, args ...any) {
	if f.Value != nil && f.Value.Origin != nil {
		p.At(f.Value, key, hint, format, args...)
		return
	}
	p.At(&Node{Line: f.Line, Column: f.Column}, key, hint, format, args...)
}

// Unique reports the second use of a value of a list, whose element n is at path
// and has the value under key. The lines of values are kept in seen.
func (p *Problems) Unique(n *Node, path, key, value string, seen map[string]int) {
	if value == "" {
		return
	}
	at := n
	if v := n.Get(key); v != nil {
		at = v
	}
	line := 0
	if at != nil {
		line = at.Line
	}
	if first, dup := seen[value]; dup {
		p.At(at, path+"."+key, "write another one", "the same %s is on line %d", key, first)
		return
	}
	seen[value] = line
}

// Err joins what was collected in file order, or returns nil.
func (p *Problems) Err() error {
	if len(p.List) == 0 {
		return nil
	}
	slices.SortStableFunc(p.List, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, 0, min(len(p.List), MaxErrors)+1)
	for i, e := range p.List {
		if i == MaxErrors {
			errs = append(errs, &Error{File: p.File, Problem: fmt.Sprintf("%d more problems are not shown", len(p.List)-i)})
			break
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Nearest returns the candidate closest to s, or "" where none is close enough
// to be what was meant.
func Nearest(s string, candidates []string) string {
	if len(s) > 64 {
		return ""
	}
	best, bestDist := "", 1+max(1, len(s)/3)
	for _, c := range candidates {
		if max(len(c)-len(s), len(s)-len(c)) >= bestDist {
			continue // the distance is at least the difference in length
		}
		if d := Distance(strings.ToLower(s), strings.ToLower(c)); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// Distance is the number of edits (insert, delete, replace, swap of two
// neighbours) between two short strings.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	prev2, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}

// DidYouMean is the hint for an unknown name. Faults that will not be shown
// get none, because finding one takes longer than finding the fault.
func (p *Problems) DidYouMean(s string, candidates []string) string {
	if len(p.List) > MaxErrors {
		return ""
	}
	if c := Nearest(s, candidates); c != "" {
		return "write " + c + " instead"
	}
	switch {
	case len(candidates) == 0:
		return ""
	case len(candidates) > 24:
		return "`toolgate config schema` has all of them"
	}
	sorted := slices.Sorted(slices.Values(candidates))
	return "known here: " + strings.Join(sorted, ", ")
}
