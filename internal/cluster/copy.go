package cluster

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/proxy/replica"
)

const (
	// writeTime is how long a client may take to read a part of an answer.
	writeTime  = 60 * time.Second
	copyBuffer = 32 << 10
)

// copyAnswer writes the answer of another member as it comes. Where that breaks off in a
// stream of events, an event says so in the place of the answer; any other answer is broken
// off, too.
func copyAnswer(w http.ResponseWriter, r *http.Request, answer *http.Response, m replica.Message) {
	for _, name := range hopByHop {
		answer.Header.Del(name)
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	client := &client{w: w, control: http.NewResponseController(w)}
	buffer := make([]byte, copyBuffer)
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		if _, err := io.CopyBuffer(client, answer.Body, buffer); err != nil && r.Context().Err() == nil {
			panic(http.ErrAbortHandler) // the client sees that the rest is missing
		}
		return
	}
	client.stream = true
	_ = client.control.Flush() // the head, before there is an event
	to := newEvents(client, m.ID)
	_, err := io.CopyBuffer(to, answer.Body, buffer)
	switch {
	case r.Context().Err() != nil || to.answered:
	case err == nil:
		_ = to.pass() // the stream is over, whether the client has got this or not
	case m.ID == "" || to.begun:
		panic(http.ErrAbortHandler)
	default:
		_, _ = client.Write(m.Lost()) // as above
	}
}

// client is written to within a time for each part. A stream may be silent for as long as it
// likes.
type client struct {
	w       io.Writer
	control *http.ResponseController
	stream  bool // each part is sent at once
}

// Write implements io.Writer.
func (c *client) Write(p []byte) (n int, err error) {
	_ = c.control.SetWriteDeadline(time.Now().Add(writeTime))
	n, err = c.w.Write(p)
	if c.stream {
		_ = c.control.Flush() // a client that has left fails the next part
		_ = c.control.SetWriteDeadline(time.Time{})
	}
	return n, err
}
