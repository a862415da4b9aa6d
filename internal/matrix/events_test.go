//go:build e2e

package matrix

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"
)

// event is one server-sent event.
type event struct {
	id, kind string
	data     []byte
	hasData  bool
}

// events reads a stream of events to its end and hands over each; visit returns
// false to stop. The error is nil at the end of the stream.
func events(r io.Reader, visit func(event) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var ev event
	for {
		line, err := in.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && err == nil:
			if ev.hasData || ev.id != "" {
				if !visit(ev) {
					return nil
				}
			}
			ev = event{}
		case field == "data":
			if ev.hasData {
				ev.data = append(ev.data, '\n')
			}
			ev.data, ev.hasData = append(ev.data, value...), true
		case field == "id":
			ev.id = value
		case field == "event":
			ev.kind = value
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// eventStream writes a stream of events. What is sent before it is opened, or
// while it is closed, waits. It is safe for concurrent use.
type eventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	waiting [][]byte
}

// open begins the stream with some events of its own.
func (s *eventStream) open(w http.ResponseWriter, first string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = w
	_, _ = io.WriteString(w, first)
	_ = http.NewResponseController(w).Flush()
	for _, raw := range s.waiting {
		s.write(raw)
	}
	s.waiting = nil
}

func (s *eventStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = nil
}

func (s *eventStream) send(raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		s.waiting = append(s.waiting, raw)
		return
	}
	s.write(raw)
}

// write sends one message; mu is held. A client that is gone misses it.
func (s *eventStream) write(raw []byte) {
	_, _ = io.WriteString(s.w, "event: message\ndata: "+string(raw)+"\n\n")
	_ = http.NewResponseController(s.w).Flush()
}
