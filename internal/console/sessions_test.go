package console

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// A link is opened once, and within a minute.
func TestLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions()
		link := s.link()
		if s.open("") || s.open(link+"x") || !s.open(link) || s.open(link) {
			t.Error("a link is not opened exactly once")
		}
		old := s.link()
		time.Sleep(linkTime)
		if s.open(old) {
			t.Error("a link is opened after its time")
		}
		first := s.link()
		for range maxLinks {
			time.Sleep(time.Millisecond)
			s.link()
		}
		if len(s.links) > maxLinks || s.open(first) {
			t.Errorf("%d links wait", len(s.links))
		}
	})
}

// Sessions end when they are old, idle, crowded out, or when their credential does.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions()
		idle, until := s.begin(nil, noEnd), s.begin(nil, time.Now().Add(time.Minute))
		if s.find("") != nil || s.find(idle) == nil || s.find(until) == nil {
			t.Fatal("a new session is not found")
		}
		time.Sleep(time.Minute)
		if s.find(until) != nil {
			t.Error("a session outlives its credential")
		}
		time.Sleep(idleTime)
		if s.find(idle) != nil {
			t.Error("a session is idle for too long")
		}
		used := s.begin(nil, noEnd)
		one := s.find(used)
		for begun := time.Now(); time.Since(begun) < sessionTime-time.Hour; time.Sleep(time.Hour) {
			if s.find(used) != one || !s.lasts(one) {
				t.Fatal("a session in use has ended")
			}
		}
		time.Sleep(time.Hour)
		if s.lasts(one) || s.find(used) != nil {
			t.Error("a session lasts for ever")
		}
		first := s.begin(nil, noEnd)
		for range maxSessions {
			time.Sleep(time.Millisecond)
			s.begin(nil, noEnd)
		}
		if len(s.all) != maxSessions || s.find(first) != nil {
			t.Errorf("%d sessions", len(s.all))
		}
	})
}

// Streams are bounded for a session and for all.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSessions()
	var leave []func()
	for n := 0; ; n++ {
		one := &session{}
		for range maxStreams {
			if l := s.stream(one); l != nil {
				leave = append(leave, l)
			}
		}
		if s.stream(one) != nil {
			t.Fatal("a session has too many streams")
		}
		if n*maxStreams > maxAllStreams {
			break
		}
	}
	if len(leave) != maxAllStreams {
		t.Errorf("%d streams", len(leave))
	}
	for _, l := range leave {
		l()
	}
	if s.streams != 0 {
		t.Errorf("%d streams are left", s.streams)
	}
}

// Somebody who signs in again and again ends their own sessions, and takes the live views
// of nobody else.
func TestOnePersonIsBounded(t *testing.T) {
	t.Parallel()
	s := newSessions()
	person := func(subject string) *gate.Identity {
		return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "https://id.example", Subject: subject}})
	}
	other, operator := s.begin(person("other"), noEnd), s.begin(nil, noEnd)
	var own []*session
	var leave []func()
	for range 3 * maxSessions {
		one := s.find(s.begin(person("many"), noEnd))
		for range maxStreams {
			if l := s.stream(one); l != nil {
				leave = append(leave, l)
			}
		}
		own = append(own, one)
	}
	if len(s.all) != maxOwnSessions+2 || s.find(other) == nil || s.find(operator) == nil {
		t.Errorf("%d sessions", len(s.all))
	}
	if s.lasts(own[0]) || !s.lasts(own[len(own)-1]) {
		t.Error("it is not the oldest session that ends")
	}
	if len(leave) != maxOwnStreams || s.stream(s.find(other)) == nil || s.stream(s.find(operator)) == nil {
		t.Errorf("%d streams of one person", len(leave))
	}
	for _, l := range leave {
		l()
	}
	if s.streams != 2 || len(s.own) != 1 {
		t.Errorf("%d streams are left, of %d people", s.streams, len(s.own))
	}
}
