//go:build linux

package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/terminal"
)

// The measures of the picture, in pixels.
const (
	letter = 8.4 // the width of a character
	line   = 19
	margin = 16
	bar    = 30 // the title of a window
	gap    = 14 // between two windows
)

// colours are those of the terminal, by their numbers in ECMA-48.
var colours = map[int]string{31: "#ff7b72", 32: "#7ee787", 33: "#e3b341"}

const (
	plain = "#c9d1d9"
	faint = "#8b949e"
	bold  = "#ffffff"
)

// draw returns the picture of windows, one below the other.
func draw(windows []window) []byte {
	width, height := float64(columns)*letter+2*margin, 0
	for _, w := range windows {
		height += bar + len(w.lines)*line + margin + gap
	}
	height -= gap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="toolgate on a terminal">`+"\n", width, height, width, height)
	b.WriteString(`<style>text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }</style>` + "\n")
	top := 0
	for _, w := range windows {
		tall := bar + len(w.lines)*line + margin
		fmt.Fprintf(&b, `<rect y="%d" width="%.0f" height="%d" rx="8" fill="#0d1117"/>`+"\n", top, width, tall)
		for i, fill := range []string{"#ff5f57", "#febc2e", "#28c840"} {
			fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="5" fill="%s"/>`+"\n", margin+2+16*i, top+bar/2, fill)
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" text-anchor="middle" fill="%s">%s</text>`+"\n", width/2, top+bar/2+5, faint, html.EscapeString(w.title))
		for i, cells := range w.lines {
			drawLine(&b, top+bar+(i+1)*line-4, cells)
		}
		top += tall + gap
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// drawLine draws the words of a line. Each has its own place and length, so that columns are
// straight in every font.
func drawLine(b *strings.Builder, y int, cells []terminal.Cell) {
	b.WriteString("<g>")
	for i := 0; i < len(cells); {
		end := i + 1
		for end < len(cells) && cells[end].Rune != ' ' && cells[i].Rune != ' ' && style(cells[end]) == style(cells[i]) {
			end++
		}
		if cells[i].Rune != ' ' {
			word := strings.TrimSuffix(terminal.Text([][]terminal.Cell{cells[i:end]}), "\n")
			fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" fill="%s">%s</text>`,
				margin+float64(i)*letter, y, float64(end-i)*letter, style(cells[i]), html.EscapeString(word))
		} else {
			b.WriteByte(' ')
		}
		i = end
	}
	b.WriteString("</g>\n")
}

func style(c terminal.Cell) string {
	if colour, ok := colours[c.Colour]; ok {
		return colour
	}
	switch {
	case c.Bold:
		return bold
	case c.Faint:
		return faint
	}
	return plain
}

var element = regexp.MustCompile(`<[^>]*>`)

// text is what a picture shows.
func text(picture []byte) string {
	_, body, _ := strings.Cut(string(picture), "</style>")
	return html.UnescapeString(element.ReplaceAllString(body, ""))
}

// volatile is what differs from run to run.
var volatile = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b|\b\d+(\.\d+)? ?(µs|ms|s)\b|\bcap_\w+…?|\buser \S+|^toolgate \d\S*`)

// comparable is a text without what differs from run to run.
func comparable(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(volatile.ReplaceAllString(line, "…")), " ") + "\n")
	}
	return b.String()
}
