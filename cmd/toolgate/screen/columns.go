package screen

import (
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// Columns writes rows below a header, in aligned columns. Cells are made printable,
// because names and reasons come from others. Rows may have fewer cells than the header.
// Where the screen is too narrow, columns that say nothing are left out, and long cells are
// cut. Where that does not do, the columns before the last are left out as well.
func (s *Screen) Columns(w io.Writer, header []string, rows [][]string) error {
	all := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		row = row[:min(len(row), len(header))]
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		all = append(all, cells)
	}
	all = s.without(all)
	header = all[0]
	widths := s.fit(all, len(header))
	var out strings.Builder
	for i, row := range all {
		var line strings.Builder
		for j, cell := range row {
			cell = cut(cell, widths[j])
			pad := strings.Repeat(" ", widths[j]-runewidth.StringWidth(cell)+gap)
			if i > 0 {
				cell = s.paint(header[j], cell)
			}
			line.WriteString(cell + pad)
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}

const (
	// gap is the space between two columns.
	gap = 2
	// narrowest is the width below which no column is cut while it has a neighbour: less
	// tells nothing.
	narrowest = 8
)

// fit returns the widths of the columns, so that a line fits the screen. The widest column
// is cut first. The first one is left whole while others can be cut: it has the name.
func (s *Screen) fit(rows [][]string, columns int) []int {
	widths, least := natural(rows), narrowest
	if columns == 1 {
		least = 1
	}
	for over := total(rows) - s.Width; s.Width > 0 && over > 0; {
		widest := -1
		for j := 1; j < columns; j++ {
			if widths[j] > least && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			widest = 0
			if columns == 0 || widths[0] <= least {
				break
			}
		}
		step := min(over, max(1, widths[widest]-s.second(widths, widest)), widths[widest]-least)
		widths[widest] -= step
		over -= step
	}
	return widths
}

// without leaves out the columns in which no row says anything, if the screen is too narrow
// for all of them, and then as many others as it has no room for even when they are cut.
// The first one stays, and the last one, which has the reason, longer than those between.
func (s *Screen) without(rows [][]string) [][]string {
	if s.Width == 0 || total(rows) <= s.Width {
		return rows
	}
	var stay []int
	for j := range rows[0] {
		if j == 0 || len(rows) == 1 || slices.ContainsFunc(rows[1:], func(row []string) bool { return j < len(row) && row[j] != "" && row[j] != "-" }) {
			stay = append(stay, j)
		}
	}
	widths := natural(rows)
	for len(stay) > 1 && cramped(widths, stay) > s.Width {
		stay = slices.Delete(stay, max(1, len(stay)-2), max(2, len(stay)-1))
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		for _, j := range stay {
			if j < len(row) {
				out[i] = append(out[i], row[j])
			}
		}
	}
	return out
}

// cramped returns the width of a line of some columns that are all cut.
func cramped(widths, columns []int) int {
	sum := -gap
	for _, j := range columns {
		sum += min(widths[j], narrowest) + gap
	}
	return sum
}

// natural returns the widths of columns that are not cut.
func natural(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for j, cell := range row {
			widths[j] = max(widths[j], runewidth.StringWidth(cell))
		}
	}
	return widths
}

// total returns the width of the widest line.
func total(rows [][]string) int {
	sum := -gap
	for _, width := range natural(rows) {
		sum += width + gap
	}
	return sum
}

// second returns the width of the widest column besides one.
func (s *Screen) second(widths []int, besides int) int {
	most := 0
	for j, w := range widths {
		if j != besides && j > 0 {
			most = max(most, w)
		}
	}
	return most
}

// cut shortens a text to a width, and says with an ellipsis that there is more.
func cut(text string, width int) string {
	return runewidth.Truncate(text, width, "…")
}

// printable replaces every character that is not printable.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
