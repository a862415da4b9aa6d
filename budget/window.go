package budget

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Slots is how many slots a sliding window has.
const Slots = 60

// The bounds of a sliding window.
const (
	minSliding = time.Minute
	maxSliding = 366 * 24 * time.Hour
)

// Window is a kind of windows: the hours, days or months of a calendar, or the
// time of a length up to now. The zero Window is none.
type Window struct {
	calendar string        // hour, day or month; else empty
	length   time.Duration // of a sliding one
}

// Calendar windows.
var (
	Hour  = Window{calendar: "hour"}
	Day   = Window{calendar: "day"}
	Month = Window{calendar: "month"}
)

var errWindow = errors.New("a window is hour, day, month or sliding:DURATION, as in sliding:90m")

// ParseWindow reads a window as it is written: hour, day, month or
// sliding:DURATION, the latter from 1m to 366 days and in whole minutes. Days are
// written as sliding:7d.
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

// Sliding tells whether the window moves with the time.
func (w Window) Sliding() bool { return w.calendar == "" }

// Length is how long a sliding window is, and at most how long another one
// roughly is.
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

// String returns the window as it is written. Equal windows have equal texts.
func (w Window) String() string {
	if w.calendar != "" {
		return w.calendar
	}
	return "sliding:" + w.duration()
}

// duration is the length of a sliding window, short.
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

// phrase is what a limit holds for.
func (w Window) phrase() string {
	switch w {
	case Hour:
		return "an hour"
	case Day, Month:
		return "a " + w.calendar
	}
	return "within " + w.duration()
}

// At returns the window of a zone that an instant is in: from start to end, the
// latter not included. Windows of one kind and zone follow each other without a
// gap.
//
// A calendar window begins when the clock of the zone first reaches its hour, day
// or month. So an hour that the clock shows twice is one window, and one that it
// skips is none. For a sliding window it is the slot to book in: from its start
// on what is booked counts for the length of the window and the rest of the
// slot.
func (w Window) At(t time.Time, zone *time.Location) (start, end time.Time) {
	if w.Sliding() {
		slot := w.length / Slots
		start = time.UnixMilli(t.UnixMilli() - floorMod(t.UnixMilli(), slot.Milliseconds())).UTC()
		return start, start.Add(slot + w.length)
	}
	// The clock may have been ahead before, by as much as a day.
	for at := w.floor(wall(t, zone)); ; at = w.next(at) {
		if end = reached(w.next(at), zone); t.Before(end) {
			return reached(at, zone), end
		}
	}
}

// EmptyAt returns when nothing is left of a limit at the pace with which so much
// was used since a time; false where nothing is used, or, of a sliding window,
// where that pace keeps within the limit for ever.
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

// reading is what a clock on a wall shows, as an instant in UTC.
type reading = time.Time

// wall returns what the clock of a zone shows at an instant.
func wall(t time.Time, zone *time.Location) reading {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// floor returns the beginning of the hour, day or month that a clock shows.
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

// next returns the beginning of the hour, day or month after one.
func (w Window) next(r reading) reading {
	switch w {
	case Hour:
		return r.Add(time.Hour)
	case Day:
		return r.AddDate(0, 0, 1)
	}
	return r.AddDate(0, 1, 0)
}

// widest is more than any clock is or was away from UTC.
const widest = 30 * time.Hour

// reached returns the first instant at which the clock of a zone shows a reading
// or a later one.
func reached(r reading, zone *time.Location) time.Time {
	from := r.Add(-widest)
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
