package transport

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/upstream/http1"
)

// sending is a request with its memory. It belongs to who has made the request, until done.
type sending struct {
	ctx     cancel.Slot
	request *http.Request // of ctx
	raw     []byte        // what the body reads
	from    bytes.Reader
	body    watchedBody
	again   func() (io.ReadCloser, error) // another body
	values  [4]string                     // of the fields of the message
}

// set sets fields of the request, in place of those of the same name.
func (s *sending) set(fields []Field) {
	h := s.request.Header
	values := s.values[:]
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(before Field) bool { return before.Name == f.Name }) {
			h[f.Name] = append(h[f.Name], f.Value)
			continue
		}
		if len(values) == 0 {
			values = make([]string, 1)
		}
		values[0] = f.Value
		h[f.Name], values = values[:1:1], values[1:]
	}
}

// noRequest is copied once for each memory: the library lets nobody set the context of one in
// place.
var noRequest = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// maxSendingFields is how many fields a request may have whose memory is kept.
const maxSendingFields = 16

func newSending() *sending {
	s := new(sending)
	s.request = noRequest.WithContext(&s.ctx)
	s.request.Header = make(http.Header, 8)
	s.body.ReadCloser = io.NopCloser(&s.from)
	s.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.raw)), nil }
	return s
}

// sendings are cleared ones.
var sendings = sync.Pool{New: func() any { return newSending() }}

// done ends the use of an answer that was read, and of its request. Their memory is used again,
// unless the request is not the one that was answered, or somebody else may still use either.
func (s *sending) done(answer *http.Response) {
	r := s.request
	if answer.Request != r || len(r.Header) > maxSendingFields || !http1.Release(answer) {
		return
	}
	r.Method, r.URL, r.Host, r.Body, r.GetBody, r.ContentLength = "", nil, "", nil, nil, 0
	clear(r.Header)
	s.ctx.Context, s.raw = nil, nil
	clear(s.values[:])
	s.from.Reset(nil)
	s.body.begun.Store(false)
	sendings.Put(s)
}
