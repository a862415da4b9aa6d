package native

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/toolgate/toolgate/native/frames"
)

// dialPause is how long a lost connection for frames stays lost, at least.
const dialPause = time.Second

// framed is a connection for frames that is made again after it is lost. It is safe for
// concurrent use. A nil framed has none.
type framed struct {
	dial    func(context.Context) (*frames.Conn, error)
	ctx     context.Context // ends with it
	end     context.CancelFunc
	dialing sync.WaitGroup

	mu     sync.Mutex
	conn   *frames.Conn
	paused bool // a new connection is on its way
}

// newFramed connects.
func newFramed(ctx context.Context, dial func(context.Context) (*frames.Conn, error)) (*framed, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	f := &framed{dial: dial, conn: conn}
	f.ctx, f.end = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

// now returns the connection; nil while there is none, and it has been asked for a new one.
func (f *framed) now() *frames.Conn {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.conn.Lost() {
		return f.conn
	}
	if !f.paused && f.ctx.Err() == nil {
		f.paused = true
		f.dialing.Go(f.again)
	}
	return nil
}

// again connects after a pause.
func (f *framed) again() {
	pause := time.NewTimer(dialPause)
	defer pause.Stop()
	var conn *frames.Conn
	select {
	case <-pause.C:
		conn, _ = f.dial(f.ctx) // where it fails, the next question tries again
	case <-f.ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused = false; conn != nil {
		f.conn = conn
	}
}

// close ends the connection.
func (f *framed) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.end() // nobody begins to connect after that
	f.mu.Unlock()
	f.dialing.Wait()
	f.conn.Close()
}

// dialFrames connects to the socket on which a plugin takes frames. The gateway could
// otherwise be made to connect to sockets that the plugin cannot reach.
func dialFrames(ctx context.Context, socket, folder string, key []byte) (*frames.Conn, error) {
	if !socketIn(socket, folder) {
		return nil, fmt.Errorf("it says that it takes frames on %s, which is not a socket in PLUGIN_UNIX_SOCKET_DIR: %w", printable([]byte(socket)), errPermanent)
	}
	conn, err := frames.Dial(ctx, socket, key)
	if err != nil {
		return nil, fmt.Errorf("connect to its socket for frames: %w", err)
	}
	return conn, nil
}
