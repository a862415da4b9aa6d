package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxErrors bounds how many faults of one file are reported.
const maxErrors = 100

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

	err error // what the problem came from, for errors.Is
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
	if e.Key != "" {
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
func (e *Error) Unwrap() error { return e.err }

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

// What some faults are, for [errors.Is].
var (
	// ErrUnset is that a variable of the environment is used and not set.
	ErrUnset = errors.New("a variable is not set")
	// ErrNamespace is that two servers have one namespace.
	ErrNamespace = errors.New("two servers have one namespace")
)

// known is an error that shows what happened, and is one of the above.
type known struct {
	text string
	is   error
}

func (e *known) Error() string { return e.text }
func (e *known) Unwrap() error { return e.is }

// because makes the last fault that was added one that came from err.
func (p *problems) because(err error) {
	if err != nil && len(p.list) > 0 {
		p.list[len(p.list)-1].err = err
	}
}

// problems collects the faults of one file.
type problems struct {
	file string
	list []*Error
}

// at adds a fault at a node. The place of an overriding value is the flag or
// variable that gave it.
func (p *problems) at(n *Node, key, hint, format string, args ...any) {
	e := &Error{File: p.file, Key: key, Problem: fmt.Sprintf(format, args...), Hint: hint}
	switch {
	case n == nil:
	case n.origin != nil:
		e.File = n.origin.String()
	default:
		e.Line, e.Column = n.Line, n.Column
	}
	p.list = append(p.list, e)
}

// atField adds a fault at the key of a field rather than at its value.
func (p *problems) atField(f Field, key, hint, format string, args ...any) {
	if f.Value != nil && f.Value.origin != nil {
		p.at(f.Value, key, hint, format, args...)
		return
	}
	p.at(&Node{Line: f.Line, Column: f.Column}, key, hint, format, args...)
}

// err joins what was collected in file order, or returns nil.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, 0, min(len(p.list), maxErrors)+1)
	for i, e := range p.list {
		if i == maxErrors {
			errs = append(errs, &Error{File: p.file, Problem: fmt.Sprintf("%d more problems are not shown", len(p.list)-i)})
			break
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// nearest returns the candidate closest to s, or "" where none is close enough
// to be what was meant.
func nearest(s string, candidates []string) string {
	if len(s) > 64 {
		return ""
	}
	best, bestDist := "", 1+max(1, len(s)/3)
	for _, c := range candidates {
		if max(len(c)-len(s), len(s)-len(c)) >= bestDist {
			continue // the distance is at least the difference in length
		}
		if d := distance(strings.ToLower(s), strings.ToLower(c)); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// distance is the number of edits (insert, delete, replace, swap of two
// neighbours) between two short strings.
func distance(a, b string) int {
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

// didYouMean is the hint for an unknown name. Faults that will not be shown
// get none, because finding one takes longer than finding the fault.
func (p *problems) didYouMean(s string, candidates []string) string {
	if len(p.list) > maxErrors {
		return ""
	}
	if c := nearest(s, candidates); c != "" {
		return "write " + c + " instead"
	}
	if len(candidates) == 0 || len(candidates) > 24 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(candidates))
	return "known here: " + strings.Join(sorted, ", ")
}
