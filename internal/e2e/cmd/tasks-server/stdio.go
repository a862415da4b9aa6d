package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A line writes messages to the one channel of stdio.
type line struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *line) send(m object) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.out.Write(append(data, '\n'))
	return err
}

// alive does nothing: a pipe needs no sign of life.
func (l *line) alive() error { return nil }

// serveStdio answers the lines of in until it ends. What is in flight then is
// stopped, and waited for.
func (s *server) serveStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &line{out: out}
	sess := newSession(ctx, "stdio")
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer sess.end()

	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxMessage)
	for scanner.Scan() {
		m, rpcErr := parse(scanner.Bytes())
		if rpcErr != nil {
			if m == nil || m.ID != nil { // not a notification
				if err := l.send(response(idOf(m), nil, rpcErr)); err != nil {
					return err
				}
			}
			continue
		}
		if m.ID == nil || m.Method == "" {
			sess.notified(m)
			continue
		}
		if m.Method == "initialize" && !s.isModern(m) { // before anything that follows it
			result, rpcErr := s.serve(ctx, sess, m, l)
			if err := l.send(response(m.ID, result, rpcErr)); err != nil {
				return err
			}
			if rpcErr == nil { // it succeeds once
				wg.Go(func() { _ = s.statuses(ctx, sess, l) }) // it ends with the connection
			}
			continue
		}
		if err := s.goServe(ctx, &wg, sess, m, l); err != nil {
			return err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("a message is longer than %d bytes", maxMessage)
	} else if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	return nil
}

// goServe answers a request beside the others.
func (s *server) goServe(ctx context.Context, wg *sync.WaitGroup, sess *session, m *message, l *line) error {
	if rpcErr := s.enter(); rpcErr != nil {
		return l.send(response(m.ID, nil, rpcErr))
	}
	ctx, done, rpcErr := sess.begin(ctx, m.ID)
	if rpcErr != nil {
		s.leave()
		return l.send(response(m.ID, nil, rpcErr))
	}
	of := sess
	if s.isModern(m) {
		of = nil
	}
	wg.Go(func() {
		defer s.leave()
		result, rpcErr := s.serve(ctx, of, m, l)
		silent := errors.Is(context.Cause(ctx), errCancelled)
		done()
		if !silent {
			_ = l.send(response(m.ID, result, rpcErr)) // if the client is gone, reading ends too
		}
	})
	return nil
}

func idOf(m *message) json.RawMessage {
	if m == nil {
		return nil
	}
	return m.ID
}
