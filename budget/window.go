package budget

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Slots is the number of slots of a sliding window.
const Slots = 60

// The range of sliding windows.
const (
	minSliding = time.Minute
	maxSliding = 366 * 24 * time.Hour
)

// Window is a kind of window: calendar hours, days or months, or a sliding length of
// time. The zero Window is none.
type Window struct {
	calendar string        // hour, day or month; else empty
	length   time.Duration // of a sliding window
}

// Calendar windows.
var (
	Hour  = Window{calendar: "hour"}
	Day   = Window{calendar: "day"}
	Month = Window{calendar: "month"}
)

var errWindow = errors.New("a window is hour, day, month or sliding:DURATION, as in sliding:90m")

// ParseWindow parses hour, day, month or sliding:DURATION. The duration is 1m to 366
// days in whole minutes; days are written like sliding:7d.
func ParseWindow(text string) (Window, error) {
	duration, sliding := strings.CutPrefix(text, "sliding:")
	if !sliding {
		switch w := (Window{calendar: text}); w {
		case Hour, Day, Month:
			return w, nil
		}
		return Window{}, errWindow
	}
	if days, ok := strings.CutSuffix(duration, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days+"\n", "%d\n", &n); err != nil || n < 1 || n > 366 || fmt.Sprint(n) != days {
			return Window{}, errWindow
		}
		return Window{length: time.Duration(n) * 24 * time.Hour}, nil
	}
	d, err := time.ParseDuration(duration)
	switch {
	case err != nil:
		return Window{}, errWindow
	case d < minSliding || d > maxSliding || d%time.Minute != 0:
		return Window{}, errors.New("a sliding window is 1m to 366d long, in whole minutes")
	}
	return Window{length: d}, nil
}

// Sliding reports whether it is a sliding window.
func (w Window) Sliding() bool { return w.calendar == "" }

// Length returns the length of a sliding window, and about the maximum length of a
// calendar window.
func (w Window) Length() time.Duration {
	switch w {
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	case Month:
		return 31 * 24 * time.Hour
	}
	return w.length
}

// String returns the window in the form of [ParseWindow]. Equal windows have equal
// texts.
func (w Window) String() string {
	if w.calendar != "" {
		return w.calendar
	}
	return "sliding:" + w.duration()
}

// duration is the length of a sliding window in short form.
func (w Window) duration() string {
	if w.length%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", w.length/(24*time.Hour))
	}
	text := strings.TrimSuffix(w.length.String(), "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// phrase is the window in a sentence about its limit.
func (w Window) phrase() string {
	switch w {
	case Hour:
		return "an hour"
	case Day, Month:
		return "a " + w.calendar
	}
	return "within " + w.duration()
}

// At returns the window of a zone at an instant: from start to end, exclusive. Windows
// of one kind and zone follow each other without gaps.
//
// A calendar window begins when the clock of the zone first reaches its hour, day or
// month. So an hour that the clock shows twice is one window, and an hour that it skips
// is none. For a sliding window At returns the slot to book in. A charge in it counts
// from the slot's start for the length of the window, plus the rest of the slot.
func (w Window) At(t time.Time, zone *time.Location) (start, end time.Time) {
	if w.Sliding() {
		slot := w.length / Slots
		start = time.UnixMilli(t.UnixMilli() - floorMod(t.UnixMilli(), slot.Milliseconds())).UTC()
		return start, start.Add(slot + w.length)
	}
	// The clock may have been ahead before, by up to a day.
	for at := w.floor(wall(t, zone)); ; at = w.next(at) {
		if end = firstReached(w.next(at), zone); t.Before(end) {
			return firstReached(at, zone), end
		}
	}
}

// EmptyAt returns when the limit will be used up at the rate of usage since a time. It
// returns false without usage, and for a sliding window if the rate never reaches the
// limit.
func (w Window) EmptyAt(used, limit int64, since, now time.Time) (at time.Time, empties bool) {
	elapsed := now.Sub(since)
	if w.Sliding() {
		elapsed = min(elapsed, w.length)
	}
	if used <= 0 || elapsed <= 0 {
		return time.Time{}, false
	}
	if used >= limit {
		return now, true
	}
	pace := float64(used) / float64(elapsed)
	left := float64(limit-used) / pace
	if w.Sliding() && pace*float64(w.length) <= float64(limit) || left > float64(100*maxSliding) {
		return time.Time{}, false
	}
	return now.Add(time.Duration(left)), true
}

// reading is what a wall clock shows, as an instant in UTC.
type reading = time.Time

// wall returns what the clock of a zone shows at an instant.
func wall(t time.Time, zone *time.Location) reading {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// floor returns the beginning of the hour, day or month of a reading.
func (w Window) floor(r reading) reading {
	y, m, d := r.Date()
	switch w {
	case Hour:
		return time.Date(y, m, d, r.Hour(), 0, 0, 0, time.UTC)
	case Day:
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}

// next returns the beginning of the following hour, day or month.
func (w Window) next(r reading) reading {
	switch w {
	case Hour:
		return r.Add(time.Hour)
	case Day:
		return r.AddDate(0, 0, 1)
	}
	return r.AddDate(0, 1, 0)
}

// maxOffset is more than any zone's offset from UTC.
const maxOffset = 30 * time.Hour

// firstReached returns the first instant at which the clock of a zone shows a reading
// or a later one.
func firstReached(r reading, zone *time.Location) time.Time {
	from := r.Add(-maxOffset)
	for {
		begin, end := from.In(zone).ZoneBounds()
		_, offset := from.In(zone).Zone()
		at := r.Add(-time.Duration(offset) * time.Second)
		if !begin.IsZero() && at.Before(begin) {
			at = begin // the clock was set forward over it
		}
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		from = end
	}
}

// floorMod is the remainder of a division that rounds down.
func floorMod(a, b int64) int64 { return ((a % b) + b) % b }
