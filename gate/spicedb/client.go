package spicedb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	authzed "github.com/authzed/authzed-go/v1"
	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// breakerOpen is how long a server that did not answer is left alone.
	breakerOpen = time.Second
	// breakerFailures in a row open the breaker.
	breakerFailures = 5
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 2 * time.Second
	minBackoff     = 100 * time.Millisecond
	maxBackoff     = 2 * time.Second
	// maxAnswer is the size of the largest answer that is read, in bytes.
	maxAnswer = 16 << 20
)

// bearer is the preshared key of a server.
type bearer struct {
	token  string
	secure bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: with TLS
// configured the key is never sent without.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

// client asks one server. It connects with the first question.
type client struct {
	endpoint string
	options  []grpc.DialOption
	breaker  *gobreaker.CircuitBreaker[struct{}]
	health   health

	mu     sync.Mutex // guards what follows
	api    *authzed.Client
	closed bool
}

func newClient(endpoint, token string, tlsConfig *tls.Config, dial func(context.Context, string) (net.Conn, error)) *client {
	transport := insecure.NewCredentials()
	if tlsConfig != nil {
		transport = credentials.NewTLS(tlsConfig)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("toolgate"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: connectTimeout,
		}),
		// The probe of Run keeps a healthy connection busier than this, so that
		// a server that limits pings sees none.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
	}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{token, tlsConfig != nil}))
	}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(dial))
	}
	return &client{endpoint: endpoint, options: options, breaker: gobreaker.NewCircuitBreaker[struct{}](breakerSettings())}
}

func breakerSettings() gobreaker.Settings {
	return gobreaker.Settings{
		Name:         "spicedb",
		MaxRequests:  1,
		Interval:     30 * time.Second,
		BucketPeriod: 3 * time.Second,
		Timeout:      breakerOpen,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			n := c.TotalSuccesses + c.TotalFailures
			return c.ConsecutiveFailures >= breakerFailures || n >= 20 && c.TotalFailures*2 >= n
		},
		// A server that answers is up, also when it answers that it cannot.
		IsSuccessful: func(err error) bool { return err == nil || reasonOf(err) == ReasonMisconfigured },
		IsExcluded:   func(err error) bool { return errors.Is(err, errLeft) },
	}
}

// connection returns the client of the library, made with the first call.
func (c *client) connection() (*authzed.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.api == nil {
		api, err := authzed.NewClient(c.endpoint, c.options...)
		if err != nil {
			return nil, err
		}
		c.api = api
	}
	return c.api, nil
}

// close ends the connection and every question that is under way.
func (c *client) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.api == nil {
		return nil
	}
	err := c.api.Close()
	c.api = nil
	return err
}

// rpc is one question to the server.
type rpc func(ctx context.Context, api *authzed.Client) error

// ask runs one question behind the breaker, with a deadline.
func (c *client) ask(ctx context.Context, doing string, limit time.Duration, call rpc) error {
	_, err := c.breaker.Execute(func() (struct{}, error) {
		return struct{}{}, c.once(ctx, limit, call)
	})
	return c.judge(doing, err)
}

// direct runs one question that does not wait for the breaker: the probe, and
// what an operator asked for.
func (c *client) direct(ctx context.Context, doing string, limit time.Duration, call rpc) error {
	return c.judge(doing, c.once(ctx, limit, call))
}

func (c *client) once(ctx context.Context, limit time.Duration, call rpc) error {
	api, err := c.connection()
	if err != nil {
		return err
	}
	limited, cancel := patience(ctx, limit)
	defer cancel()
	err = call(limited, api)
	cause := context.Cause(limited)
	switch {
	case err == nil:
		return nil
	case cause != nil && !errors.Is(cause, errOverdue):
		return fmt.Errorf("%w: %w", errLeft, err)
	case late(limited, err):
		return &overdue{limit, err}
	}
	return err
}

// patience returns a context for one question to the server. It has our own deadline
// alone, whose cause is errOverdue, and ends when the caller's does, with its cause.
// The library reports a deadline by the clock, some time before the context itself
// ends: of a context that had the caller's deadline too, nobody could tell whose it
// was, and callers in a hurry would count against the server.
func patience(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	own, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { leave(context.Cause(ctx)) })
	limited, cancel := context.WithTimeoutCause(own, limit, errOverdue)
	return limited, func() {
		stop()
		cancel()
		leave(nil)
	}
}

// judge makes an error of ours of an answer and notes the health.
func (c *client) judge(doing string, err error) error {
	if err == nil {
		c.health.answered(nil)
		return nil
	}
	failed := &Error{Reason: reasonOf(err), Endpoint: c.endpoint, Doing: doing, Err: err}
	if !errors.Is(err, errLeft) && !errors.Is(err, errClosed) && !errors.Is(err, gobreaker.ErrTooManyRequests) {
		c.health.answered(failed)
	}
	return failed
}
