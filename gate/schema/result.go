package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems bounds the problems reported for one call.
const maxProblems = 10

// Result is the result of a check. The zero Result is not valid.
type Result struct {
	Valid bool
	// Problems are the required changes, ordered by place, at most ten; nil when Valid.
	Problems []Problem
	// More is the number of further problems.
	More int
	// Partial is set when a pattern of the schema could not be checked, see
	// [Schema.Partial].
	Partial bool
}

// Problem is one problem with the arguments. Its texts are short. Quotes from
// arguments or schema are cut at 100 characters, with all invisible characters
// escaped.
type Problem struct {
	// Pointer is the JSON Pointer (RFC 6901) of the value; empty for the
	// arguments as a whole.
	Pointer string
	// Problem says what is wrong; readers see it after the pointer.
	Problem string
	// Fix says what to do; empty when there is nothing to say.
	Fix string

	rank int // order among problems with the same pointer
}

// Text formats the result for the caller: one line per problem, in a stable order;
// empty when the result is valid.
func (r *Result) Text() string {
	if r == nil {
		return "The arguments were not checked."
	}
	if r.Valid {
		return ""
	}
	var b strings.Builder
	b.WriteString("The arguments do not fit the tool's input schema.")
	for _, p := range r.Problems {
		where := "arguments"
		if p.Pointer != "" {
			where = quotePointer(p.Pointer)
		}
		fmt.Fprintf(&b, "\n- %s: %s", where, p.Problem)
		if p.Fix != "" {
			fmt.Fprintf(&b, "; %s", p.Fix)
		}
		if !strings.HasSuffix(p.Fix, "?") {
			b.WriteByte('.')
		}
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "\nThere are %d more problems like these.", r.More)
	}
	return b.String()
}

func wrong(p Problem) *Result { return &Result{Problems: []Problem{p}} }

// newResult sorts the problems, drops duplicates and cuts the list.
func newResult(problems []Problem, partial bool) *Result {
	r := &Result{Problems: problems, Partial: partial}
	if r.More = len(problems) - maxProblems; r.More > 0 {
		r.Problems = problems[:maxProblems:maxProblems]
	} else {
		r.More = 0
	}
	return r
}

// arrange puts problems in a stable order and drops duplicates.
func arrange(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(comparePointers(a.Pointer, b.Pointer), cmp.Compare(a.rank, b.rank),
			strings.Compare(a.Problem, b.Problem), strings.Compare(a.Fix, b.Fix))
	})
	return slices.Compact(problems)
}

// comparePointers orders by depth first, so that outer problems come before inner
// ones, and elements by their index.
func comparePointers(a, b string) int {
	return cmp.Or(
		cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")),
		compareTokens(strings.Split(a, "/"), strings.Split(b, "/")),
	)
}

func compareTokens(a, b []string) int {
	return slices.CompareFunc(a, b, func(a, b string) int {
		if isIndex(a) && isIndex(b) {
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		}
		return strings.Compare(a, b)
	})
}

func isIndex(token string) bool {
	return token != "" && strings.Trim(token, "0123456789") == ""
}
