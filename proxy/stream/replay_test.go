package stream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is kept for clients that may resume is bounded and expires.
func TestReplaysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Store{most: 100, keep: time.Minute}
		var streams []*Stream
		for range 5 {
			s := r.Open("a", "")
			s.Add([]byte(strings.Repeat("x", 40)), true)
			streams = append(streams, s)
		}
		if r.bytes > 100 || len(r.streams) != 2 {
			t.Errorf("%d streams of %d bytes are kept", len(r.streams), r.bytes)
		}
		if _, _, _, err := streams[0].After(0); err == nil {
			t.Error("the oldest stream is still there")
		}
		if events, more, _, err := streams[4].After(0); err != nil || more || len(events) != 1 {
			t.Errorf("the newest: %d events, %t, %v", len(events), more, err)
		}
		if r.Find("b", streams[4].number) != nil {
			t.Error("a stream of another session was found")
		}
		streams[4].Add([]byte(strings.Repeat("x", 1000)), false)
		if r.bytes > 100 {
			t.Errorf("%d bytes are kept", r.bytes)
		}
		if n := streams[4].Add([]byte("late"), false); n != 3 {
			t.Errorf("an event of a stream that was thrown out has the number %d, want 3", n)
		}
		if r.bytes != 0 {
			t.Errorf("%d bytes are counted for nothing", r.bytes)
		}
		done := r.Open("a", "")
		done.Add([]byte("x"), true)
		running := r.Open("a", "")
		running.Add([]byte("y"), false)
		time.Sleep(2 * time.Minute)
		r.Sweep(time.Now())
		if len(r.streams) != 1 || r.streams[0] != running || r.bytes != 1 {
			t.Errorf("after a while %d streams of %d bytes are kept", len(r.streams), r.bytes)
		}
	})
}

// The streams of a session end with it.
func TestReplaysEndWithTheirSession(t *testing.T) {
	r := NewStore(100, time.Minute)
	a, b := r.Open("a", ""), r.Open("b", "")
	a.Add([]byte("one"), false)
	b.Add([]byte("two"), false)
	r.Forget("a")
	a.Add([]byte("late"), true)
	if r.Find("a", a.number) != nil || r.Find("b", b.number) == nil || r.bytes != 3 {
		t.Errorf("%d bytes are kept, a is %v", r.bytes, r.Find("a", a.number))
	}
}
