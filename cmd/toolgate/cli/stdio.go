package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/relay"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/proxy"
)

func newStdio(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "stdio [FILE...]",
		Short: "Serve every server of a file to a client that starts a process",
		Long: `Serve every server of a file on stdin and stdout. If a gateway is running with the
same file, this process joins it, so that all clients share one set of servers.
Otherwise this process is the gateway. Several files are one configuration, as for
toolgate up, and the gateway is the one of the first file.

Without FILE it uses the file of --config, of TOOLGATE_CONFIG, or of the user's own
configuration folder. It uses toolgate.yaml in the working folder only if you have
accepted that with toolgate trust, because clients start this command in other
people's folders, where a file could choose what runs.`,
		Example: "  toolgate stdio ~/.cursor/mcp.json",
		Args:    command.FilesArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return serveStdio(o, cmd.Context())
		},
	}
	c.Flags().Var((*viewFlag)(&o.View), "view", "what tools/list holds: full for all tools, find for the tools by which a model finds the others; strict, compact or verbatim for how schemas are listed; strict/find for both")
	c.Flags().DurationVar(&o.WaitFirst, "wait", 0, "how long initialize and the first lists wait for servers that were never seen before; by default initialize does not wait, and lists wait at most 8s")
	return c
}

func serveStdio(o *command.Options, ctx context.Context) error {
	o.Awaits = true
	path, err := o.FindOwnFile()
	if err != nil {
		return err
	}
	c, err := o.ReadConfig(path)
	if err != nil {
		return err
	}
	state, err := command.OpenState(o, c)
	if err != nil {
		return err
	}
	surviveBrokenPipes()
	client := relay.New(os.Stdin, os.Stdout, int(c.Toolgate.Limits.Body), c.Toolgate.Limits.Depth)
	defer client.Close()
	attempts := command.JoinAttempts
	for {
		var stream io.ReadWriteCloser
		_, own, err := o.JoinOrOwn(ctx, c, state, attempts, func(control *admin.Client) (err error) {
			if attempts == takeOverAttempts && client.Over() {
				return errClientEnded
			}
			stream, err = control.Stdio(ctx, command.APIKey(), o.View)
			return err
		})
		switch {
		case errors.Is(err, errClientEnded), err != nil && ctx.Err() != nil: // there is nobody left to serve
			err = nil
		case err != nil:
		case own != nil:
			err = ownStdio(o, ctx, own, state, client)
		default:
			noteOtherFiles(ctx, o, state)
			err = client.Serve(ctx, stream)
		}
		if !errors.Is(err, relay.ErrGatewayGone) {
			client.GiveUp()
			return err
		}
		// Wait, so that a gateway that is about to take over is quicker than this
		// process. If the client is ending too, it needs no other gateway.
		select {
		case <-time.After(command.TakeOverPause):
		case <-ctx.Done():
		}
		if client.Over() || ctx.Err() != nil {
			client.GiveUp()
			return nil
		}
		log, _ := o.Logger(c)
		log.Warn("the gateway is gone; this client continues with the next one, which this process starts if no other does")
		c, attempts = o.TakeoverConfig(c, state), takeOverAttempts
	}
}

// noteOtherFiles warns that a gateway which this process has joined does not run all files
// that it was given.
func noteOtherFiles(ctx context.Context, o *command.Options, state *statedir.Dir) {
	running, ok := state.Running(ctx)
	if !ok {
		return
	}
	for _, path := range o.With {
		if abs, err := filepath.Abs(path); err == nil && !slices.Contains(running.With, abs) {
			output.Warn("the gateway that runs was started without %s, so its servers are not there; end that gateway, or start it with this file too", path)
		}
	}
}

// takeOverAttempts is higher than joinAttempts, because a gateway that ends stops its
// servers first, which may take a while.
const takeOverAttempts = 300

// errClientEnded tells that a client has ended while it waited for a gateway.
var errClientEnded = errors.New("the client has ended")

// ownStdio serves one client with a gateway of its own, which others may join meanwhile.
// It returns [relay.ErrGatewayGone] if it has made room for another gateway.
func ownStdio(o *command.Options, ctx context.Context, in *daemon.Daemon, state *statedir.Dir, client *relay.Relay) error {
	if err := in.CheckKey(ctx, command.APIKey()); err != nil {
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
				log, _ := o.Logger(in.Current())
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
			stream, err := o.Stream(ctx, nil, in)
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

// viewNames says how a view is written.
const viewNames = "write full, find, verbatim, compact or strict, or how schemas are listed before find, such as strict/find"

// viewFlag is the value of a flag that names a view.
type viewFlag string

// String implements pflag.Value.
func (v *viewFlag) String() string { return string(*v) }

// Set implements pflag.Value.
func (v *viewFlag) Set(text string) error {
	if _, ok := proxy.ScopeOfView(text); !ok {
		return errors.New(viewNames)
	}
	*v = viewFlag(text)
	return nil
}

// Type implements pflag.Value.
func (v *viewFlag) Type() string { return "view" }
