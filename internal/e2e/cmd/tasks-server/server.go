package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"
)

// Limits. A request that exceeds one of them is refused.
const (
	maxInFlight = 512              // requests served at once, streams included
	maxMessage  = 1 << 20          // bytes of one message
	maxTTL      = time.Hour        // of a task, whatever a client asks for
	maxCall     = 5 * time.Minute  // of a call that is not a task
	keepAlive   = 15 * time.Second // between keep-alive messages on an idle stream
	pageSize    = 50               // tasks on one page of tasks/list
)

// A server answers requests of both eras; transports bring them.
type server struct {
	era   string        // "both", "modern" or "legacy": what it lets itself be seen as
	ttl   time.Duration // of tasks whose client asks for none
	poll  time.Duration // how often a client should ask for the state of a task
	tasks *store
	key   []byte        // authenticates requestState
	slots chan struct{} // one per request in flight
}

func newServer(era string, maxTasks int, ttl, poll time.Duration) *server {
	return &server{
		era: era, ttl: ttl, poll: poll, tasks: newStore(maxTasks),
		key: []byte(rand.Text()), slots: make(chan struct{}, maxInFlight),
	}
}

// A stream carries messages to the client while its request is served.
type stream interface {
	send(message object) error
	alive() error // a keep-alive message, if the transport has one
}

var serverInfo = object{"name": "tasks-server", "version": "1.0.0"}

// isModern reports whether a message belongs to the era without sessions: it declares its
// version itself.
func (s *server) isModern(m *message) bool {
	return s.era == "modern" || s.era == "both" && m.params.Meta.Version != nil
}

// enter takes a slot for a request before anything is started for it; leave returns it.
func (s *server) enter() *rpcError {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
		return errorf(codeInternal, "too many requests in flight")
	}
}

func (s *server) leave() { <-s.slots }

// serve answers one request: one of the legacy era in its session, one of the
// modern era with a nil session.
func (s *server) serve(ctx context.Context, sess *session, m *message, out stream) (object, *rpcError) {
	if sess == nil {
		return s.modern(ctx, m, out)
	}
	return s.legacy(ctx, sess, m, out)
}

// watch sends the present state of the matching tasks, and then their changes, until ctx
// ends or the client is gone.
func (s *server) watch(ctx context.Context, out stream, match func(*task) bool, render func(task) object) error {
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	var version uint64
	for {
		news, now, changed := s.tasks.since(version, match)
		for _, t := range news {
			if err := out.send(render(t)); err != nil {
				return err
			}
		}
		version = now
		select {
		case <-changed:
		case <-ticker.C:
			if err := out.alive(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listTools returns the tools as the era describes them.
func listTools(legacy bool) []object {
	var list []object
	for _, t := range tools {
		o := object{"name": t.name, "description": t.description, "inputSchema": json.RawMessage(t.schema)}
		if legacy {
			o["execution"] = object{"taskSupport": t.support}
		}
		list = append(list, o)
	}
	return list
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
