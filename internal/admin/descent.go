package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A gateway starts programs that others wrote, and they run as its user. They may
// not administer it: approve what they ask for, change its mode, or read what it
// knows. So whoever comes to the control side is looked at, and a process that
// descends from this one is turned away, whatever it has (docs/adr/0034).
//
// On Linux a process whose parent has ended is handed to this one (see [Adopt]),
// so that no number of forks leads out of its descent.

// maxAncestors bounds the way from a process to the first.
const maxAncestors = 4096

const (
	// maxTurnedAway bounds how many descendants are told why at one time; more
	// are not told.
	maxTurnedAway = 8
	// turnAwayTime is how long that may take.
	turnAwayTime = 2 * time.Second
)

// checked accepts connections of the own user only, and none of a descendant.
type checked struct {
	net.Listener
	telling chan struct{} // has room for maxTurnedAway
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
		case descendant(c):
			l.turnAway(c)
		default:
			return c, nil
		}
	}
}

// turnAway tells a descendant why it is not served. It returns at once.
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
		text, err := json.Marshal(map[string]string{"error": ReasonDescent})
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}()
}
