package code

import "github.com/toolgate/toolgate/internal/child"

// Kept writes texts as an output and returns what is kept of it.
func Kept(most int, whole bool, texts ...string) (text string, lost int64) {
	o := &child.Output{Max: most, Ends: !whole}
	for _, t := range texts {
		_, _ = o.Write([]byte(t))
	}
	text, _ = textOf(o)
	_, _, lost = o.Parts()
	return text, lost
}
