package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// serversPath begins the paths of processes that members share.
	serversPath = "/servers/"
	// maxRefusal bounds the text of a refusal.
	maxRefusal = 4 << 10
	// headerEnded is the trailer that says why a stream has ended.
	headerEnded = "Toolgate-Ended"
)

// Place returns the member where the process of a server runs for this gateway: one of the
// first copies members by rendezvous hashing, and this one if it is among them. Members for
// which out is true are left out; out may be nil. A member that drains runs nothing, unless
// there is no other.
func (c *Cluster) Place(server string, copies int, out func(id string) bool) string {
	var fit []Member
	for _, m := range *c.members.Load() {
		if m.ID == c.self.ID {
			m.Draining = c.draining.Load()
		}
		if !m.Draining && (out == nil || !out(m.ID)) {
			fit = append(fit, m)
		}
	}
	first := ranked(fit, serversPath+server)
	first = first[:min(len(first), max(copies, 1))]
	switch _, here := find(first, c.self.ID); {
	case here || len(first) == 0:
		return c.self.ID
	}
	return chosen(first, c.self.ID).ID
}

// Suspected tells whether a member was not reached a moment ago.
func (c *Cluster) Suspected(id string) bool {
	_, ok := c.reachable(id)
	return !ok
}

// ranked sorts members by their weight for a key, the highest first.
func ranked(members []Member, key string) []Member {
	slices.SortFunc(members, func(a, b Member) int {
		switch wa, wb := weight(a.ID, key), weight(b.ID, key); {
		case wa > wb:
			return -1
		case wa < wb:
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	return members
}

// RefusedError is the answer of a member that does not run a server.
type RefusedError struct {
	Status int
	Text   string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Text }

// Stream is a stream to the process of a server at another member.
type Stream struct {
	io.Reader
	io.Writer
	answer *http.Response
	end    context.CancelFunc
}

// Close ends the stream.
func (s *Stream) Close() { s.end(); s.answer.Body.Close() }

// Why returns why the stream has ended, as the other member says it. It is called after the
// end; nil says that the member is gone.
func (s *Stream) Why() error {
	if text := s.answer.Trailer.Get(headerEnded); text != "" {
		return errors.New(text)
	}
	return nil
}

// Open opens a stream to the process of a server at a member. The context bounds the
// attempt. query tells the member which process is meant. The error is a [RefusedError] if
// the member does not run it.
func (c *Cluster) Open(ctx context.Context, to, server string, query url.Values) (*Stream, error) {
	l, address, err := c.link(to)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(l.life)
	stop := context.AfterFunc(ctx, end)
	in, out := io.Pipe()
	r := (&http.Request{
		Method: http.MethodPost, Host: address, Body: in, ContentLength: -1, Proto: "HTTP/2.0", ProtoMajor: 2,
		URL:    &url.URL{Scheme: "https", Host: address, Path: serversPath + server, RawQuery: query.Encode()},
		Header: http.Header{headerWire: {strconv.Itoa(Wire)}},
	}).WithContext(life)
	answer, err := l.streams.RoundTrip(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
		answer.Body.Close()
		end()
		return nil, &RefusedError{answer.StatusCode, string(bytes.TrimSpace(text))}
	}
	if err != nil || !stop() {
		end()
		if err == nil {
			answer.Body.Close()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.suspect(to)
		return nil, fmt.Errorf("the gateway at %s does not answer: %w", address, err)
	}
	return &Stream{answer.Body, out, answer, end}, nil
}

// Servers serves the processes that other members use.
type Servers interface {
	// Serve carries the messages of a stream to the process of a server, until one of them
	// ends. It calls begin once it has the process; an error before that is a
	// [RefusedError] or says why there is no process. An error after that says why the stream
	// ended.
	Serve(ctx context.Context, member, server string, query url.Values, in io.Reader, begin func() *Far) error
}

// Far is the other side of a stream to a process of this member.
type Far struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Flush sends what was written.
func (f *Far) Flush() error { return f.control.Flush() }

// Cut ends writes that wait for the other side.
func (f *Far) Cut() { _ = f.control.SetWriteDeadline(time.Now()) } // else it has ended

// serveServer serves a stream of another member.
func (c *Cluster) serveServer(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(headerWire) != strconv.Itoa(Wire) || c.o.Servers == nil || r.ProtoMajor < 2 {
		http.Error(w, "this gateway shares no servers in this way", http.StatusNotFound)
		return
	}
	begun := false
	far := &Far{w, http.NewResponseController(w)}
	err := c.o.Servers.Serve(r.Context(), r.TLS.PeerCertificates[0].Subject.CommonName, strings.TrimPrefix(r.URL.Path, serversPath), r.URL.Query(), r.Body,
		func() *Far {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.WriteHeader(http.StatusOK)
			_ = far.Flush() // else the stream ends with it
			return far
		})
	if err == nil {
		return
	}
	var refused *RefusedError
	switch {
	case begun:
		w.Header().Set(http.TrailerPrefix+headerEnded, oneLine(err))
	case errors.As(err, &refused):
		http.Error(w, refused.Text, refused.Status)
	default:
		http.Error(w, oneLine(err), http.StatusBadGateway)
	}
}

// oneLine returns an error as a header can have it.
func oneLine(err error) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, err.Error())
	return text[:min(len(text), maxRefusal)]
}
