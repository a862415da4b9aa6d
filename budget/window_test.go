package budget_test

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/toolgate/toolgate/budget"
)

// zones are unusual ones: half hours, clocks that change by half an hour, at midnight
// or a minute after it, skipped days, and changed rules.
var zones = []string{
	"UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Havana",
	"America/St_Johns", "Asia/Beirut", "Africa/Cairo", "America/Sao_Paulo", "Pacific/Apia", "Asia/Tehran", "Africa/Casablanca",
	"Pacific/Chatham", "America/Asuncion", "Asia/Pyongyang", "Pacific/Kiritimati", "America/Scoresbysund", "Antarctica/Troll",
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

var calendars = []budget.Window{budget.Hour, budget.Day, budget.Month}

// floor is the beginning of the hour, day or month of a clock, as a comparable number.
func floor(w budget.Window, t time.Time) int64 {
	y, m, d := t.Date()
	switch w {
	case budget.Hour:
		return time.Date(y, m, d, t.Hour(), 0, 0, 0, time.UTC).Unix()
	case budget.Day:
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	}
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).Unix()
}

// Over twenty years of every zone, windows follow each other without a gap or an
// overlap, each instant is in the one that At says, every instant of a window
// shows the hour, day or month of its beginning or, where the clock goes back, an
// earlier one, and no two begin with the same.
func TestCalendarWindowsAreAPartition(t *testing.T) {
	const years = 20
	for _, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zone(t, name)
			rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
			for _, w := range calendars {
				from := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC)
				start, end := w.At(from, z)
				shown, count := int64(0), 0
				for start.Before(from.AddDate(years, 0, 0)) {
					if w == budget.Hour && count%2 == 1 { // all hours around changes, a part of the others
						if _, change := start.In(z).ZoneBounds(); change.IsZero() || change.Sub(start) > 72*time.Hour {
							start, end = w.At(start.Add(5*24*time.Hour), z)
						}
					}
					count++
					if !start.Before(end) {
						t.Fatalf("%s: window from %s to %s", w, start, end)
					}
					begins := floor(w, start.In(z))
					if begins <= shown {
						t.Fatalf("%s: the window from %s shows what an earlier one did", w, start.In(z))
					}
					shown = begins
					for _, at := range []time.Time{
						start, end.Add(-time.Millisecond), start.Add(time.Duration(rnd.Int64N(int64(end.Sub(start))))),
					} {
						if s, e := w.At(at, z); !s.Equal(start) || !e.Equal(end) {
							t.Fatalf("%s: %s is in %s to %s, not in %s to %s", w, at.In(z), s, e, start, end)
						}
						if floor(w, at.In(z)) > begins {
							t.Fatalf("%s: %s is in the window of %s", w, at.In(z), start.In(z))
						}
					}
					next, after := w.At(end, z)
					if !next.Equal(end) {
						t.Fatalf("%s: after the end at %s comes %s", w, end.In(z), next.In(z))
					}
					start, end = next, after
				}
				if count < years*12 {
					t.Errorf("%s: %d windows", w, count)
				}
			}
		})
	}
}

func TestCalendarWindows(t *testing.T) {
	for _, tc := range []struct {
		window              budget.Window
		zone, at            string
		wantStart, wantEnds string
	}{
		{budget.Month, "UTC", "2024-02-29T23:59:59.999Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{budget.Month, "Europe/Paris", "2026-10-31T23:00:00Z", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z"},
		{budget.Month, "Europe/Paris", "2026-10-31T22:59:59Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"},
		{budget.Day, "Europe/Paris", "2026-10-25T10:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},     // 25 hours
		{budget.Day, "Europe/Paris", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},     // 23
		{budget.Day, "Asia/Beirut", "2022-03-27T10:00:00Z", "2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z"},      // begins at 01:00
		{budget.Day, "America/Havana", "2022-11-06T04:30:00Z", "2022-11-06T04:00:00Z", "2022-11-07T05:00:00Z"},   // midnight twice
		{budget.Day, "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"}, // back to the day before
		{budget.Day, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},     // the last before
		{budget.Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},     // a day that was left out
		{budget.Hour, "Asia/Kolkata", "2026-01-01T00:00:00Z", "2025-12-31T23:30:00Z", "2026-01-01T00:30:00Z"},
		{budget.Hour, "Europe/Paris", "2026-10-25T01:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},        // shown twice
		{budget.Hour, "Australia/Lord_Howe", "2026-04-04T15:15:00Z", "2026-04-04T14:00:00Z", "2026-04-04T15:30:00Z"}, // and a half
	} {
		at, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := tc.window.At(at, zone(t, tc.zone))
		if got, ends := start.Format(time.RFC3339), end.Format(time.RFC3339); got != tc.wantStart || ends != tc.wantEnds {
			t.Errorf("the %s of %s in %s: %s to %s, want %s to %s", tc.window, tc.at, tc.zone, got, ends, tc.wantStart, tc.wantEnds)
		}
	}
}

// At any instants: what is booked at one counts at all later ones for the length of the
// window, and at most one slot longer.
func TestSlidingWindowsCountForTheirLength(t *testing.T) {
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 8))
	for _, text := range []string{"sliding:1m", "sliding:7m", "sliding:1h", "sliding:90m", "sliding:1d", "sliding:366d"} {
		w, err := budget.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			at := time.UnixMilli(rnd.Int64N(4e12) - 1e12).UTC()
			start, end := w.At(at, nil)
			if start.After(at) || end.Before(at.Add(w.Length())) || end.After(at.Add(w.Length()+w.Length()/budget.Slots)) {
				t.Fatalf("%s: what is booked at %s counts from %s to %s", text, at, start, end)
			}
			if s, e := w.At(start, nil); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("%s: the slot of %s begins at %s", text, start, s)
			}
			if s, _ := w.At(end.Add(-w.Length()), nil); !s.Equal(end.Add(-w.Length())) {
				t.Fatalf("%s: the slot after %s begins at %s", text, start, s)
			}
		}
	}
}

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]string{
		"hour": "hour", "day": "day", "month": "month", "sliding:90m": "sliding:1h30m", "sliding:1h": "sliding:1h", "sliding:60m": "sliding:1h",
		"sliding:24h": "sliding:1d", "sliding:7d": "sliding:7d", "sliding:10m": "sliding:10m", "sliding:168h0m0s": "sliding:7d", "sliding:366d": "sliding:366d",
	} {
		w, err := budget.ParseWindow(text)
		if err != nil || w.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, w, err, want)
		}
		if again, err := budget.ParseWindow(w.String()); err != nil || again != w {
			t.Errorf("%s is not read back: %s, %v", text, again, err)
		}
	}
	for _, text := range []string{"", "week", "Hour", "sliding:", "sliding", "sliding:30s", "sliding:90s", "sliding:367d", "sliding:-1h", "sliding:0d", "sliding:01d", "sliding:1dd", "sliding: 1d", "sliding:9999999999999d", "1h"} {
		if w, err := budget.ParseWindow(text); err == nil {
			t.Errorf("%q is %s", text, w)
		}
	}
}

func TestEmptyAt(t *testing.T) {
	now := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	hour, err := budget.ParseWindow("sliding:1h")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		window      budget.Window
		used, limit int64
		since       time.Duration
		want        time.Duration // from now; below 0 is never
	}{
		{budget.Month, 50, 100, 240 * time.Hour, 240 * time.Hour},
		{budget.Month, 100, 100, 240 * time.Hour, 0},
		{budget.Month, 0, 100, 240 * time.Hour, -1},
		{budget.Month, 10, 100, 0, -1},
		{hour, 50, 100, time.Hour, -1},     // as much as the window holds
		{hour, 50, 100, 3 * time.Hour, -1}, // likewise: what is older does not count
		{hour, 60, 100, 30 * time.Minute, 20 * time.Minute},
	} {
		at, empties := tc.window.EmptyAt(tc.used, tc.limit, now.Add(-tc.since), now)
		if empties != (tc.want >= 0) || empties && at.Sub(now).Round(time.Second) != tc.want {
			t.Errorf("%s, %d of %d in %s: %t, %s; want %s", tc.window, tc.used, tc.limit, tc.since, empties, at.Sub(now), tc.want)
		}
	}
}
