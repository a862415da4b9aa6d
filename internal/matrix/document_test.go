//go:build e2e

package matrix

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// page is the file that holds the table, between its two marks. What is around
// them is written by internal/e2e.
const (
	page      = "../../docs/compatibility.md"
	pageBegin = "<!-- matrix: begin -->"
	pageEnd   = "<!-- matrix: end -->"
)

// document holds the page to the result, or writes it.
func (m *matrix) document(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withPart(string(raw), m.part())
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	switch {
	case want == string(raw):
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what was measured; run `go test -tags e2e ./internal/matrix -update`", page)
	}
}

// withPart returns the page with another part between the marks, which are made
// at its end when it has none.
func withPart(whole, part string) (string, error) {
	begin, end := strings.Index(whole, pageBegin), strings.Index(whole, pageEnd)
	switch {
	case begin < 0 && end < 0:
		return strings.TrimRight(whole, "\n") + "\n\n" + pageBegin + "\n" + part + pageEnd + "\n", nil
	case begin < 0 || end < begin || strings.Count(whole, pageBegin) > 1 || strings.Count(whole, pageEnd) > 1:
		return "", fmt.Errorf("the marks %s and %s do not come once each, in this order", pageBegin, pageEnd)
	}
	return whole[:begin] + pageBegin + "\n" + part + whole[end:], nil
}

// part renders the result for a reader.
func (m *matrix) part() string {
	var b strings.Builder
	n := len(kinds())
	fmt.Fprintf(&b, `
## Every revision through one gateway

Every client revision and transport, through one running gateway, to every server
revision and transport, with every feature: %d clients, %d servers, %d cells for
each feature. The peers are scripted and hold every message against their own
revision. A feature that does not work everywhere yet is marked so.

Clients and servers: %s.

<!-- Written by internal/matrix with -update; every cell is run by its test. -->

| feature | cells | work | cannot exist |
|---|---|---|---|
`, n, n, n*n, kindTitles())
	var notes []*reason
	for _, f := range features {
		missing := m.missing(f, &notes)
		work := fmt.Sprintf("%d", len(m.results[f]))
		if slices.Contains(notYet, f.name) {
			work = "not all yet"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", f.name, len(m.results[f]), work, missing)
	}
	b.WriteString("\nWhat cannot exist, and where the specification says so:\n\n")
	for i, why := range notes {
		fmt.Fprintf(&b, "%d. %s (%s).\n", i+1, strings.ToUpper(why.why[:1])+why.why[1:], why.section)
	}
	fmt.Fprintf(&b, "\nTwo combinations are neither client nor server: %s (%s), and %s (%s).\n\n",
		noStreamable.why, noStreamable.section, noSSE.why, noSSE.section)
	return b.String()
}

// missing counts the impossible cells of a feature by their reasons, and numbers
// those.
func (m *matrix) missing(f *feature, notes *[]*reason) string {
	counts := make(map[*reason]int)
	var order []*reason
	for _, down := range kinds() {
		for _, up := range kinds() {
			why := f.impossible(down, up)
			if why == nil {
				continue
			}
			if counts[why]++; counts[why] == 1 {
				order = append(order, why)
			}
		}
	}
	var parts []string
	for _, why := range order {
		if !slices.Contains(*notes, why) {
			*notes = append(*notes, why)
		}
		parts = append(parts, fmt.Sprintf("%d (%d)", counts[why], slices.Index(*notes, why)+1))
	}
	return strings.Join(parts, ", ")
}

// kindTitles names the revisions with their transports.
func kindTitles() string {
	var all []string
	for _, rev := range revisions {
		var over []string
		for _, k := range kinds() {
			if k.rev == rev {
				over = append(over, string(k.over))
			}
		}
		all = append(all, string(rev)+" over "+strings.Join(over, ", "))
	}
	return strings.Join(all, "; ")
}

// TestWithPart holds the page to what is around the part.
func TestWithPart(t *testing.T) {
	for _, c := range []struct{ about, whole, want string }{
		{"no marks yet", "# Page\n", "# Page\n\n" + pageBegin + "\nnew\n" + pageEnd + "\n"},
		{"replaced", "a\n" + pageBegin + "\nold\n" + pageEnd + "\nb\n", "a\n" + pageBegin + "\nnew\n" + pageEnd + "\nb\n"},
		{"the end is missing", "a\n" + pageBegin + "\n", ""},
		{"the wrong way round", pageEnd + "\n" + pageBegin + "\n", ""},
		{"twice", pageBegin + pageEnd + pageBegin + pageEnd, ""},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, err := withPart(c.whole, "new\n")
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v", got, err)
			}
			if again, _ := withPart(got, "new\n"); err == nil && again != got {
				t.Errorf("a second time it is %q", again)
			}
		})
	}
}
