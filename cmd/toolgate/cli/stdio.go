package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/relay"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

func newStdio(o *options) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "stdio [FILE]",
		Short: "Serve every server of a file to a client that starts a process",
		Long: `Serve every server of a file on stdin and stdout. Where a gateway is running
with the same file it is joined, so that all clients share one set of servers;
otherwise this process is the gateway.

Without FILE it is the one of --config, of TOOLGATE_CONFIG, or of the user's own
configuration folder. Other commands look for toolgate.yaml in the working folder
before that; this one does not, because clients start it in folders of others, whose
file would choose what runs.`,
		Example: "  toolgate stdio ~/.cursor/mcp.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.stdio(cmd.Context(), file(args), wait)
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "how long initialize and the first lists wait for servers that have never been seen; without it initialize does not wait, and lists wait 8s at most")
	return c
}

// apiKey is the key or the token of the client, from its environment: stdio has no headers.
func apiKey() string { return os.Getenv("TOOLGATE_API_KEY") }

func (o *options) stdio(ctx context.Context, arg string, wait time.Duration) error {
	o.awaits = true
	path, err := o.findOwnFile(arg)
	if err != nil {
		return err
	}
	c, err := o.readConfig(path)
	if err != nil {
		return err
	}
	state, err := statedir.Open(c.Path)
	if err != nil {
		return err
	}
	surviveBrokenPipes()
	client := relay.New(os.Stdin, os.Stdout, int(c.Toolgate.Limits.Body), c.Toolgate.Limits.Depth)
	defer client.Close()
	attempts := joinAttempts
	for {
		var stream io.ReadWriteCloser
		_, own, err := o.joinOrOwn(ctx, c, state, attempts, func(control *admin.Client) (err error) {
			if attempts == takeOverAttempts && client.Over() {
				return errClientEnded
			}
			stream, err = control.Stdio(ctx, apiKey())
			return err
		})
		switch {
		case errors.Is(err, errClientEnded), err != nil && ctx.Err() != nil: // there is nobody to serve any more
			err = nil
		case err != nil:
		case own != nil:
			err = o.ownStdio(ctx, own, wait, client)
		default:
			err = client.Serve(ctx, stream)
		}
		if !errors.Is(err, relay.ErrGatewayGone) {
			client.GiveUp()
			return err
		}
		// A gateway that is to take its place has to be quicker than we are, and
		// a client that is ending too needs no other.
		select {
		case <-time.After(takeOverPause):
		case <-ctx.Done():
		}
		if client.Over() || ctx.Err() != nil {
			client.GiveUp()
			return nil
		}
		log, _ := o.logger(c)
		log.Warn("the gateway is gone; this client goes on with the next one, which this process starts if no other does")
		c, attempts = o.successor(c, state), takeOverAttempts
	}
}

// errClientEnded tells that a client that waited for a gateway needs none.
var errClientEnded = errors.New("the client has ended")

// takeOverPause is how long a client without a gateway waits before it looks
// for one.
const takeOverPause = 100 * time.Millisecond

// joinOrOwn finds the running gateway of a configuration, with which join
// succeeds, or makes one of its own, which is then not nil. While the state
// folder is locked by a gateway that cannot be joined, it tries again.
func (o *options) joinOrOwn(ctx context.Context, c *config.Config, state *statedir.Dir, attempts int, join func(*admin.Client) error) (*admin.Client, *daemon.Daemon, error) {
	token, err := state.Secret("admin.token")
	if err != nil {
		return nil, nil, err
	}
	control := &admin.Client{Path: state.Socket, Token: token}
	for attempt := 0; ; attempt++ {
		switch err := join(control); {
		case errors.Is(err, admin.ErrNoAnswer) && attempt < attempts: // it is just ending
		case !errors.Is(err, admin.ErrNotRunning):
			return control, nil, controlError(err)
		default:
			own, err := daemon.New(ctx, o.daemon(), c, state, "")
			if _, busy := errors.AsType[*store.InUseError](err); !busy || attempt >= attempts {
				return nil, own, err
			}
		}
		// A gateway of this configuration is just starting, or ending.
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// controlError gives an error of the control socket its exit code.
func controlError(err error) error {
	var refused *admin.RefusedError
	var rejected *admin.ReloadError
	var asked *admin.QuestionError
	var stays *admin.StaysError
	switch {
	case errors.As(err, &asked), errors.As(err, &stays):
		return failure.New(failure.Usage, err)
	case errors.As(err, &refused):
		return failure.New(failure.Auth, err)
	case errors.As(err, &rejected):
		return failure.New(failure.Config, err)
	}
	return failure.New(failure.Unreachable, err)
}

const (
	joinAttempts = 120 // longer than calls may take to end by default
	joinPause    = 100 * time.Millisecond
	// takeOverAttempts are more, because a gateway that ends first ends its
	// servers, which may take them a while.
	takeOverAttempts = 300
)

// ownStdio is the gateway of one client, which others may join meanwhile. It
// returns errGatewayGone when it has made room for another gateway.
func (o *options) ownStdio(ctx context.Context, in *daemon.Daemon, wait time.Duration, client *relay.Relay) error {
	if _, err := in.Identities.Identity(ctx, apiKey()); err != nil {
		in.Close()
		return err
	}
	if wait > 0 {
		in.Gateway.WaitFirst(wait)
	}
	in.State.Remember(in.Config)
	room, makeRoom := context.WithCancelCause(ctx)
	defer makeRoom(nil)
	in.Leave = func() { makeRoom(relay.ErrGatewayGone) }
	return in.Run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(room, func() { cancel(context.Cause(room)) })
		defer stop()
		var others sync.WaitGroup
		defer others.Wait()
		defer cancel(nil)
		others.Go(func() {
			if err := in.ServeControl(ctx); err != nil {
				in.Log.Warn("others cannot join this gateway", "err", err)
			}
		})
		others.Go(func() {
			if client.GenerationNow() > 0 { // the file may have changed under the gateway before
				_, _ = in.TakeFile(false) // logged there
			}
			_ = in.WatchFiles(ctx)
		})
		others.Go(func() { _ = in.WatchSignals(ctx) })
		for {
			stream, err := o.stream(ctx, nil, in)
			if err != nil {
				return err
			}
			// Its own session may end before the gateway does.
			if err := client.Serve(ctx, stream); !errors.Is(err, relay.ErrGatewayGone) || ctx.Err() != nil {
				return err
			}
		}
	})
}
