package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/internal/descent"
)

const (
	// maxTurnedAway bounds how many descendants get an explanation at one time; further
	// ones get none.
	maxTurnedAway = 8
	// turnAwayTime bounds an explanation.
	turnAwayTime = 2 * time.Second
)

// checked accepts connections of the gateway's own user only, and none of a process that
// descends from this one.
type checked struct {
	net.Listener
	telling chan struct{} // has a capacity of maxTurnedAway
}

// Accept implements [net.Listener].
func (l *checked) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch {
		case !samePeer(c):
			c.Close()
		case descent.OfConn(c):
			l.turnAway(c)
		default:
			return c, nil
		}
	}
}

// turnAway tells a descendant why it is refused. It returns at once.
func (l *checked) turnAway(c net.Conn) {
	select {
	case l.telling <- struct{}{}:
	default:
		c.Close()
		return
	}
	go func() { // ends within turnAwayTime
		defer func() { <-l.telling }()
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(turnAwayTime)); err != nil {
			return
		}
		if _, err := http.ReadRequest(bufio.NewReaderSize(c, 4<<10)); err != nil {
			return
		}
		text, err := json.Marshal(map[string]string{"error": descent.Reason})
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}()
}

// RefuseDescendants wraps a handler and refuses descendants of this process. The server
// in front of it has [descent.ConnContext].
func RefuseDescendants(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if descent.OfRequest(r.Context()) {
			writeJSON(w, http.StatusForbidden, map[string]any{"error": descent.Reason})
			return
		}
		h.ServeHTTP(w, r)
	})
}
