package keyring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

// connection is the connection to the session bus during one call. The library uses the
// one that its process shares; nothing else in the process does.
type connection struct {
	mu     sync.Mutex
	conn   *dbus.Conn
	closed bool
}

// open connects to the session bus. Without one there is no key ring. The library would
// start a bus then, which would outlive the process.
func (c *connection) open() error {
	if !hasBus() {
		return fmt.Errorf("%w: there is no D-Bus session", errNoRing)
	}
	conn, err := dbus.SessionBus()
	if err != nil {
		return fmt.Errorf("%w: connect to the D-Bus session: %w", errNoRing, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // the call was given up
		return errors.New("the D-Bus session answers too late")
	}
	c.conn = conn
	return nil
}

// close ends the connection, and with it the call that waits for an answer.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close() // nothing is lost with it
	}
	c.conn, c.closed = nil, true
}

func hasBus() bool {
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return true
	}
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()), name)); err == nil {
			return true
		}
	}
	return false
}

// absent tells whether an error means that nobody on the bus keeps secrets.
func absent(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	if !ok {
		return false
	}
	name, standard := strings.CutPrefix(e.Name, "org.freedesktop.DBus.Error.")
	return standard && (name == "ServiceUnknown" || name == "NameHasNoOwner" || strings.HasPrefix(name, "Spawn."))
}
