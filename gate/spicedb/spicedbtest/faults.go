package spicedbtest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// faults is what a server does wrong. The zero faults are none.
type faults struct {
	before      func(ctx context.Context, method string) error
	answer      func(ctx context.Context, method string)
	request     func(method string, req any)
	pair        func(object string) error
	event       func(token string)
	lag         int
	mute        bool
	watchBroken error
	watchNumber int // streams opened before this one are broken
	opened      int // Watch streams that were ever open
}

// Before is called for every call before it is answered; an error is the
// answer. It may block until ctx ends. Nil ends the fault.
func (s *Server) Before(f func(ctx context.Context, method string) error) {
	s.set(func(x *faults) { x.before = f })
}

// Answering is called with every answer, after it was made and before it is
// sent.
func (s *Server) Answering(f func(ctx context.Context, method string)) {
	s.set(func(x *faults) { x.answer = f })
}

// Requests is called with every message that is not part of a stream.
func (s *Server) Requests(f func(method string, req any)) {
	s.set(func(x *faults) { x.request = f })
}

// FailPairs fails single questions of a bulk call, by their object
// ("tool:x"). Nil ends the fault.
func (s *Server) FailPairs(f func(object string) error) {
	s.set(func(x *faults) { x.pair = f })
}

// BeforeEvent is called before an event is sent to a Watch stream, with its
// token, and may block. Nil ends the fault.
func (s *Server) BeforeEvent(f func(token string)) {
	s.set(func(x *faults) { x.event = f })
}

// Lag makes every read that does not ask for better read so many revisions
// behind the newest, or the oldest one that it asks for.
func (s *Server) Lag(revisions int) {
	s.set(func(x *faults) { x.lag = revisions })
}

// Mute keeps Watch streams open and sends nothing, not even later what was
// written meanwhile.
func (s *Server) Mute(on bool) {
	s.set(func(x *faults) { x.mute = on })
}

// Opened returns how many Watch streams were ever open.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.opened
}

// BreakWatch ends every Watch stream that is open with an error.
func (s *Server) BreakWatch(err error) {
	s.set(func(x *faults) { x.watchBroken, x.watchNumber = err, x.watchNumber+1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

func (s *Server) set(change func(*faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.faults)
}

func (s *Server) seen(method string, req any) {
	s.mu.Lock()
	f := s.faults.request
	s.mu.Unlock()
	if f != nil {
		f(method, req)
	}
}

func (s *Server) answering(ctx context.Context, method string) {
	s.mu.Lock()
	f := s.faults.answer
	s.mu.Unlock()
	if f != nil {
		f(ctx, method)
	}
}

// Unavailable is a fault for [Server.Before]: every call is refused.
func Unavailable(context.Context, string) error {
	return status.Error(codes.Unavailable, "the server is told to fail")
}

// Hang is a fault for [Server.Before]: no call is answered.
func Hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// Slow is a fault for [Server.Before]: every call takes longer.
func Slow(d time.Duration) func(context.Context, string) error {
	return func(ctx context.Context, _ string) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
