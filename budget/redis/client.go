package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeouts bound one operation each, including the wait for a connection. Zero values
// stand for the defaults.
type Timeouts struct {
	Rates   time.Duration // 1 s
	Budgets time.Duration // 5 s: a call that cannot be charged is refused
}

const (
	dialTime = time.Second
	// idleTime is how long an idle connection stays open.
	idleTime = 5 * time.Minute
)

// connections bounds the connections to one server.
const connections = 64

// Client is a connection pool to a server or a cluster. It connects at the first use.
// It is safe for concurrent use.
type Client struct {
	rdb      goredis.UniversalClient
	timeouts Timeouts
	calls    *exchanges // of rates and rows
}

func newClient(rdb goredis.UniversalClient, timeouts Timeouts) *Client {
	return &Client{rdb, timeouts, newExchanges(rdb, timeouts.Rates)}
}

// quiet disables the driver's log on stderr, because errors are returned.
var quiet = sync.OnceFunc(func() { goredis.SetLogger(silence{}) })

type silence struct{}

// Printf drops a line of the driver's log.
func (silence) Printf(context.Context, string, ...any) {}

// New returns a client for an address such as
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//
// with rediss for TLS, and with ?addr=HOST:PORT for each further node of a cluster. A
// command is never repeated, because it may have been executed. Errors do not contain
// the address, which may hold a password.
func New(address string, timeouts Timeouts) (*Client, error) {
	quiet()
	timeouts.Rates = cmp.Or(max(timeouts.Rates, 0), time.Second)
	timeouts.Budgets = cmp.Or(max(timeouts.Budgets, 0), 5*time.Second)
	longest := max(timeouts.Rates, timeouts.Budgets)
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("is not an address of a Redis server")
	}
	if u.Query().Has("addr") {
		o, err := goredis.ParseClusterURL(address)
		if err != nil {
			return nil, errAddress(err, u)
		}
		o.MaxRetries, o.MaxRedirects, o.DialerRetries = -1, 3, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTime, longest, longest, longest
		o.PoolSize, o.ConnMaxIdleTime, o.ContextTimeoutEnabled, o.DisableIdentity = connections, idleTime, true, true
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return newClient(goredis.NewClusterClient(o), timeouts), nil
	}
	o, err := goredis.ParseURL(address)
	if err != nil {
		return nil, errAddress(err, u)
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTime, longest, longest, longest
	o.PoolSize, o.ConnMaxIdleTime, o.ContextTimeoutEnabled, o.DisableIdentity = connections, idleTime, true, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return newClient(goredis.NewClient(o), timeouts), nil
}

// errAddress describes an invalid address, without its text if it names a user.
func errAddress(err error, u *url.URL) error {
	if u.User != nil {
		return errors.New("is not an address of a Redis server")
	}
	return fmt.Errorf("is not an address of a Redis server: %w", err)
}

// Close closes all connections.
func (c *Client) Close() error { return c.rdb.Close() }
