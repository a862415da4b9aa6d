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
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

func newStdio(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "stdio [FILE]",
		Short: "Serve every server of a file to a client that starts a process",
		Long: `Serve every server of a file on stdin and stdout. If a gateway is running with the
same file, this process joins it, so that all clients share one set of servers.
Otherwise this process is the gateway.

Without FILE it uses the file of --config, of TOOLGATE_CONFIG, or of the user's own
configuration folder. It uses toolgate.yaml in the working folder only if you have
accepted that with toolgate trust, because clients start this command in other
people's folders, where a file could choose what runs.`,
		Example: "  toolgate stdio ~/.cursor/mcp.json",
		Args:    fileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.stdio(cmd.Context())
		},
	}
	c.Flags().DurationVar(&o.waitFirst, "wait", 0, "how long initialize and the first lists wait for servers that were never seen before; by default initialize does not wait, and lists wait at most 8s")
	return c
}

// apiKey returns the client's key or token from its environment, because stdio has no
// headers.
func apiKey() string { return os.Getenv("TOOLGATE_API_KEY") }

func (o *options) stdio(ctx context.Context) error {
	o.awaits = true
	path, err := o.findOwnFile()
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
	if err := mayRun(o, c, state); err != nil {
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
		case errors.Is(err, errClientEnded), err != nil && ctx.Err() != nil: // there is nobody left to serve
			err = nil
		case err != nil:
		case own != nil:
			err = o.ownStdio(ctx, own, state, client)
		default:
			err = client.Serve(ctx, stream)
		}
		if !errors.Is(err, relay.ErrGatewayGone) {
			client.GiveUp()
			return err
		}
		// Wait, so that a gateway that is about to take over is quicker than this
		// process. If the client is ending too, it needs no other gateway.
		select {
		case <-time.After(takeOverPause):
		case <-ctx.Done():
		}
		if client.Over() || ctx.Err() != nil {
			client.GiveUp()
			return nil
		}
		log, _ := o.logger(c)
		log.Warn("the gateway is gone; this client continues with the next one, which this process starts if no other does")
		c, attempts = o.takeoverConfig(c, state), takeOverAttempts
	}
}

// errClientEnded tells that a client has ended while it waited for a gateway.
var errClientEnded = errors.New("the client has ended")

// takeOverPause is how long a client without a gateway waits before it looks for one.
const takeOverPause = 100 * time.Millisecond

// joinOrOwn finds the running gateway of a configuration for which join succeeds.
// Otherwise it creates a gateway of its own, which is then not nil. It tries again while
// a gateway that cannot be joined holds the lock of the state folder.
func (o *options) joinOrOwn(ctx context.Context, c *config.Config, state *statedir.Dir, attempts int, join func(*admin.Client) error) (*admin.Client, *daemon.Daemon, error) {
	token, err := state.Secret("admin.token")
	if err != nil {
		return nil, nil, err
	}
	control := &admin.Client{Path: state.Socket, Token: token}
	for attempt := 0; ; attempt++ {
		switch err := join(control); {
		case errors.Is(err, admin.ErrNoAnswer) && attempt < attempts: // the gateway is about to end
		case !errors.Is(err, admin.ErrNotRunning):
			return control, nil, controlError(err)
		default:
			own, err := daemon.New(ctx, o.daemon(), c, state, "")
			held, busy := errors.AsType[*store.InUseError](err)
			if !busy || attempt >= attempts || attempt == joinAttempts && target.Serves(ctx, held.PID) {
				return nil, own, err
			}
			if attempt == joinQuiet && !o.quiet {
				note("waiting for %s, which runs the same servers", held.Holder())
			}
		}
		// A gateway of this configuration is about to start or end.
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
	joinQuiet    = 20 // attempts before it is said what is waited for
	// commandAttempts is for one command that waits for another one, which may wait for
	// slow servers first.
	commandAttempts = int((settleTime + 30*time.Second) / joinPause)
	// takeOverAttempts is higher, because a gateway that ends stops its servers first,
	// which may take a while.
	takeOverAttempts = 300
)

// ownStdio serves one client with a gateway of its own, which others may join meanwhile.
// It returns errGatewayGone if it has made room for another gateway.
func (o *options) ownStdio(ctx context.Context, in *daemon.Daemon, state *statedir.Dir, client *relay.Relay) error {
	if err := in.CheckKey(ctx, apiKey()); err != nil {
		in.Close()
		return err
	}
	state.Remember(in.Current())
	room, makeRoom := context.WithCancelCause(ctx)
	defer makeRoom(nil)
	in.OnMakeRoom(func() { makeRoom(relay.ErrGatewayGone) })
	return in.Run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(room, func() { cancel(context.Cause(room)) })
		defer stop()
		var others sync.WaitGroup
		defer others.Wait()
		defer cancel(nil)
		others.Go(func() {
			if err := in.ServeControl(ctx, "", func() {}); err != nil {
				log, _ := o.logger(in.Current())
				log.Warn("others cannot join this gateway", "err", err)
			}
		})
		others.Go(func() {
			if client.GenerationNow() > 0 { // the file may have changed while the previous gateway ran
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
