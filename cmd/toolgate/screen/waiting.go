package screen

import (
	"sync"
	"time"
)

const (
	// waitBefore is how long something may take before it is drawn that it does.
	waitBefore = time.Second
	// waitPause is how often the line is drawn anew.
	waitPause = 200 * time.Millisecond
	// unknownWidth is assumed of a terminal that does not tell how wide it is.
	unknownWidth = 80
)

// Wait draws a line while something takes its time. line returns it, for the time that has
// passed; it is cut to the width of the screen that of returns. end removes the line.
func (l *Live) Wait(of func() *Screen, line func(time.Duration) string) (end func()) {
	began := time.Now()
	over := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { // ends with end
		tick := time.NewTicker(waitPause)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			took := time.Since(began)
			if took < waitBefore {
				continue
			}
			width := of().Width
			if width == 0 {
				width = unknownWidth
			}
			l.Draw([]byte(cut(printable(line(took)), width-1) + "\n"))
		}
	})
	return func() {
		close(over)
		drawing.Wait()
		l.Draw(nil)
	}
}
