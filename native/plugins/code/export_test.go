package code

import (
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/child"
)

// TellRemovals has what operators are told of containers that stay go to a function, and
// further tries follow at once, until a test ends.
func TellRemovals(t *testing.T, to func(line string)) {
	pause, before := removePause, tell
	removePause, tell = time.Microsecond, to
	t.Cleanup(func() { removePause, tell = pause, before })
}

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
