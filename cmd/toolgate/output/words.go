package output

import (
	"fmt"
	"time"
)

// FirstLine returns the first line of a text, cut to a number of characters.
func FirstLine(text string, most int) string {
	runes := []rune(text)
	for i, r := range runes {
		if r == '\n' || r == '\r' {
			runes = runes[:i]
			break
		}
	}
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}

func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", s)
	default:
		return d.Round(time.Second).String()
	}
}

// Short formats a count for a table.
func Short(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}
