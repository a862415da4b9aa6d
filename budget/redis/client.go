package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time limits of one conversation. A command is never repeated by the driver: it
// may have been executed.
const (
	dialTime    = 500 * time.Millisecond
	commandTime = 500 * time.Millisecond
	// turnTime bounds the wait for a connection that is free.
	turnTime = time.Second
	idleTime = 5 * time.Minute
)

// connections is how many there may be to one server.
const connections = 64

// Client is a connection pool to a server or a cluster. It connects when it is
// used first. It is safe for concurrent use.
type Client struct {
	rdb goredis.UniversalClient
}

// quiet keeps the driver from writing to stderr: what fails is returned.
var quiet = sync.OnceFunc(func() { goredis.SetLogger(silence{}) })

type silence struct{}

// Printf drops a line of the driver's log.
func (silence) Printf(context.Context, string, ...any) {}

// New returns a client of an address such as
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//
// with rediss for TLS, and with ?addr=HOST:PORT for each further node of a
// cluster. Its errors do not hold the address, which may have a password in it.
func New(address string) (*Client, error) {
	quiet()
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
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTime, commandTime, commandTime, turnTime
		o.PoolSize, o.ConnMaxIdleTime, o.ContextTimeoutEnabled, o.DisableIdentity = connections, idleTime, true, true
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return &Client{rdb: goredis.NewClusterClient(o)}, nil
	}
	o, err := goredis.ParseURL(address)
	if err != nil {
		return nil, errAddress(err, u)
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTime, commandTime, commandTime, turnTime
	o.PoolSize, o.ConnMaxIdleTime, o.ContextTimeoutEnabled, o.DisableIdentity = connections, idleTime, true, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &Client{rdb: goredis.NewClient(o)}, nil
}

// errAddress is what is wrong with an address, without its text where a user is
// named in it.
func errAddress(err error, u *url.URL) error {
	if u.User != nil {
		return errors.New("is not an address of a Redis server")
	}
	return fmt.Errorf("is not an address of a Redis server: %w", err)
}

// Close closes all connections.
func (c *Client) Close() error { return c.rdb.Close() }
