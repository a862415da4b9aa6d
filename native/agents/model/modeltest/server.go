package modeltest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const maxBody = 32 << 20 // bytes of a request

// Server is an endpoint. It serves POST of /v1/chat/completions, /v1/responses and
// /v1/messages. Its fields are not changed while it serves.
type Server struct {
	Script Script
	Key    string // that is asked for; empty for none
	// Seen is called with each request that is taken, if it is not nil.
	Seen func(Seen)

	mu  sync.Mutex
	met map[[sha256.Size]byte]int // faults by conversation
}

// Seen is a request that was taken.
type Seen struct {
	Format string // chat, responses or messages
	Header http.Header
	Body   []byte
	Turn   *Turn // of the answer; nil where the script has none
}

// format is a wire format.
type format interface {
	// read checks a request.
	read(h http.Header, body []byte) (*asked, *fault)
	// stream returns the events of an answer. The first half of them is what a fault in the
	// middle leaves.
	stream(a *asked, t *Turn) []sse
	// whole returns an answer without a stream.
	whole(a *asked, t *Turn) any
	// fault returns an error as the format writes it.
	fault(f *fault) any
	// broken returns the event of an error in a stream.
	broken(f *fault) sse
}

// sse is an event of a stream.
type sse struct {
	name string // empty for none
	data any    // a string is written as it is
}

// fault is an answer that is an error.
type fault struct {
	status              int
	kind, code, message string
	param               string
}

func bad(message string) *fault {
	return &fault{status: http.StatusBadRequest, kind: "invalid_request_error", message: message}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var f format
	name := ""
	switch r.URL.Path {
	case "/v1/chat/completions":
		f, name = chat{}, "chat"
	case "/v1/responses":
		f, name = responses{}, "responses"
	case "/v1/messages":
		f, name = messages{}, "messages"
	}
	if f == nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name == "messages" && key == "" { // Anthropic documents this one; its library sends the other
		key = r.Header.Get("X-Api-Key")
	}
	if key != s.Key {
		refuse(w, f, &fault{status: http.StatusUnauthorized, kind: "authentication_error", code: "invalid_api_key", message: "Incorrect API key provided: " + key})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, f, &fault{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", message: "the request is too large"})
		return
	}
	asked, refusal := f.read(r.Header, body)
	if refusal == nil {
		refusal = asked.check()
	}
	if refusal != nil {
		refuse(w, f, refusal)
		return
	}
	turn := s.Script.pick(asked)
	if s.Seen != nil {
		s.Seen(Seen{name, r.Header.Clone(), body, turn})
	}
	if turn == nil {
		refuse(w, f, bad("the script is over"))
		return
	}
	s.answer(w, r, f, asked, turn, body)
}

func refuse(w http.ResponseWriter, f format, what *fault) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(what.status)
	_ = json.NewEncoder(w).Encode(f.fault(what))
}

// meets reports whether a conversation meets the fault of a turn this time.
func (s *Server) meets(t *Turn, body []byte) bool {
	if t.Times == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met == nil {
		s.met = map[[sha256.Size]byte]int{}
	}
	sum := sha256.Sum256(body)
	s.met[sum]++
	return s.met[sum] <= t.Times
}

func wait(ctx context.Context, d Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, f format, a *asked, t *Turn, body []byte) {
	if !wait(r.Context(), t.Delay) {
		return
	}
	kind := t.Fault
	if kind != "" && !s.meets(t, body) {
		kind = ""
	}
	switch kind { //nolint:exhaustive // the others go wrong in the stream
	case RateLimit:
		w.Header().Set("Retry-After", "1")
		refuse(w, f, &fault{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "rate_limit_exceeded", message: "Rate limit reached"})
		return
	case ServerError:
		refuse(w, f, &fault{status: http.StatusInternalServerError, kind: "api_error", code: "server_error", message: "Internal server error"})
		return
	case Overloaded:
		status := http.StatusServiceUnavailable
		if _, ok := f.(messages); ok {
			status = 529
		}
		refuse(w, f, &fault{status: status, kind: "overloaded_error", message: "Overloaded"})
		return
	case Unauthorized:
		refuse(w, f, &fault{status: http.StatusUnauthorized, kind: "authentication_error", code: "invalid_api_key", message: "Incorrect API key provided: " + s.Key})
		return
	case TooLong:
		refuse(w, f, &fault{status: http.StatusBadRequest, kind: "invalid_request_error", code: "context_length_exceeded", message: "prompt is too long: this model's maximum context length is 8192 tokens"})
		return
	case Page:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Welcome to the proxy</body></html>\n")
		return
	case Silent:
		<-r.Context().Done()
		return
	case Hangup:
		panic(http.ErrAbortHandler)
	}
	if t.Whole || !a.stream {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(f.whole(a, t))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	events := f.stream(a, t)
	for i, e := range events {
		if kind != "" && i == len(events)/2 {
			breakOff(w, r, f, kind)
			return
		}
		if i > 0 && !wait(r.Context(), t.Pause) || send(w, e) != nil {
			return
		}
	}
}

// breakOff has a stream go wrong in the middle.
func breakOff(w http.ResponseWriter, r *http.Request, f format, kind Fault) {
	switch kind { //nolint:exhaustive // the others come before the stream
	case InStream:
		_ = send(w, f.broken(&fault{kind: "overloaded_error", code: "server_error", message: "Overloaded"}))
	case CutStream:
		panic(http.ErrAbortHandler)
	case Garbage:
		_ = send(w, sse{data: `{"type":"content_block_delta","choices":[{"delta":`})
	case Hang:
		<-r.Context().Done()
	case Huge:
		for send(w, sse{data: `{"type":"ping","pad":"` + strings.Repeat("x", 1<<16) + `"}`}) == nil {
			if r.Context().Err() != nil {
				return
			}
		}
	}
}

func send(w http.ResponseWriter, e sse) error {
	var b strings.Builder
	if e.name != "" {
		b.WriteString("event: " + e.name + "\n")
	}
	data, ok := e.data.(string)
	if !ok {
		text, err := json.Marshal(e.data)
		if err != nil {
			return err
		}
		data = string(text)
	}
	b.WriteString("data: " + data + "\n\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
