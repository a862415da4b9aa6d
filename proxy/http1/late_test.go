package http1

import (
	"net"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/internal/cancel"
)

// untouched is a connection that nobody may use.
type untouched struct {
	net.Conn // nil
}

func (untouched) RemoteAddr() net.Addr { return &net.TCPAddr{} }
func (untouched) LocalAddr() net.Addr  { return &net.TCPAddr{} }

// TestLateLook lets the timer of a request come during the next one, whose body is not read yet.
func TestLateLook(t *testing.T) {
	c := newConn(New(&http.Server{}), t.Context(), untouched{})
	w := &c.gone
	w.begin(&body{}, new(cancel.Context))
	w.end()
	w.begin(&body{conn: c, left: 2}, new(cancel.Context))
	w.look()
	if w.has || w.reading {
		t.Errorf("the watch has used the connection: %+v", w)
	}
	w.end()
	w.look() // between two requests
}
