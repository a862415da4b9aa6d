package http1

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/toolgate/toolgate/internal/httpfield"
)

// received is the memory of an answer. It belongs to the caller of [Pool.RoundTrip] until
// [Release].
type received struct {
	response http.Response
	body     body
	fields   httpfield.Memory
}

// spare is the memory of answers that were released. All of it is zero but for room for fields.
var spare = sync.Pool{New: func() any {
	a := new(received)
	a.body.of = a
	return a
}}

// Release gives the memory of an answer to another one, if its body was read to its end. Nobody
// may use any part of the answer then, values of its header apart, and nothing here uses its
// request any more. Release is false where somebody still may, and does nothing then.
func Release(resp *http.Response) bool {
	b, own := resp.Body.(*body)
	if !own || resp != &b.of.response || !errors.Is(b.err, io.EOF) {
		return false
	}
	b.of.clear()
	spare.Put(b.of)
	return true
}

// clear makes it memory for another answer.
func (a *received) clear() {
	a.response = http.Response{}
	a.body = body{of: a}
	a.fields.Clear()
}
