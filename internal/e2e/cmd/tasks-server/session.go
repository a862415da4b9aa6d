package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// errCancelled is the cause of a context whose request the client cancelled: no answer is
// sent any more.
var errCancelled = errors.New("cancelled by the client")

// A session is one legacy client between initialize and its end: over HTTP by its id, on
// stdio the process. On stdio it also counts the requests of the modern era, which are
// cancelled in the same way.
type session struct {
	id  string // the owner of its tasks
	ctx context.Context
	end context.CancelFunc

	mu        sync.Mutex
	client    *clientCapabilities // nil before initialize
	calls     map[string]context.CancelCauseFunc
	questions map[int64]chan answer
	lastID    int64
	listening bool // a GET stream is open
	used      time.Time
}

func newSession(ctx context.Context, id string) *session {
	ctx, end := context.WithCancel(ctx)
	return &session{
		id: id, ctx: ctx, end: end, used: time.Now(),
		calls: map[string]context.CancelCauseFunc{}, questions: map[int64]chan answer{},
	}
}

// begin returns the context of a request. It ends with parent, with the session, and when
// the client cancels. Call the function when the request is served.
func (s *session) begin(parent context.Context, id json.RawMessage) (context.Context, func(), *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(id)
	if s.calls[key] != nil {
		return nil, nil, errorf(codeInvalidRequest, "a request with the id %s is in flight", key)
	}
	ctx, cancel := context.WithCancelCause(parent)
	release := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	s.calls[key], s.used = cancel, time.Now()
	return ctx, func() {
		s.mu.Lock()
		delete(s.calls, key)
		s.used = time.Now()
		s.mu.Unlock()
		release()
		cancel(nil)
	}, nil
}

// notified takes a notification of a client.
func (s *session) notified(m *message) {
	switch {
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		cancel := s.calls[string(bytes.TrimSpace(m.params.RequestID))]
		s.mu.Unlock()
		if cancel != nil {
			cancel(errCancelled)
		}
	case m.Method == "" && m.ID != nil:
		var id int64
		if json.Unmarshal(m.ID, &id) != nil {
			return
		}
		s.mu.Lock()
		asked := s.questions[id]
		delete(s.questions, id)
		s.mu.Unlock()
		if asked == nil {
			return // nobody asked, or nobody waits any more
		}
		a := answer{Action: "cancel"} // what an error of the client comes to
		if m.Result != nil {
			_ = json.Unmarshal(m.Result, &a) // it takes anything
		}
		asked <- a // there is room: one answer per question
	}
}

// ask puts a question to the user on a stream, and waits for the answer until
// ctx ends. If it belongs to a task, it says so.
func (s *session) ask(ctx context.Context, out stream, q question, taskID string) (answer, error) {
	asked := make(chan answer, 1)
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	s.questions[id] = asked
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.questions, id)
		s.mu.Unlock()
	}()
	params := q.params()
	if taskID != "" {
		params["_meta"] = object{keyRelatedTask: object{"taskId": taskID}}
	}
	if err := out.send(object{"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}); err != nil {
		return answer{}, err
	}
	select {
	case a := <-asked:
		if !a.valid() {
			a = answer{Action: "cancel"}
		}
		return a, nil
	case <-ctx.Done():
		_ = out.send(notification("notifications/cancelled", object{"requestId": id})) // if the client is there
		return answer{}, context.Cause(ctx)
	}
}

// capabilities gives what the client declared; nil before initialize.
func (s *session) capabilities() *clientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// idle reports since when nothing of the session is in use, and whether that
// is so.
func (s *session) idle() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.calls) == 0 && !s.listening
}

// listen marks the one GET stream as open; false if it is already.
func (s *session) listen(open bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.listening
	s.listening, s.used = open, time.Now()
	return !open || !was
}
