package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/admin"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
)

func newStdio(o *options) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "stdio [FILE]",
		Short: "Serve every server of a file to a client that starts a process",
		Long: `Serve every server of a file on stdin and stdout. Where a gateway is running
with the same file it is joined, so that all clients share one set of servers;
otherwise this process is the gateway.`,
		Example: "  toolgate stdio ~/.cursor/mcp.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.stdio(cmd.Context(), file(args), wait)
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "how long the first lists wait for servers that have never been seen")
	return c
}

// apiKey is the key of the client, from its environment: stdio has no headers.
func apiKey() string { return os.Getenv("TOOLGATE_API_KEY") }

func (o *options) stdio(ctx context.Context, arg string, wait time.Duration) error {
	c, err := o.loadConfig(arg)
	if err != nil {
		return err
	}
	state, err := openState(c.Path)
	if err != nil {
		return err
	}
	var stream io.ReadWriteCloser
	_, own, err := o.joinOrOwn(ctx, c, state, func(control *admin.Client) (err error) {
		stream, err = control.Stdio(ctx, apiKey())
		return err
	})
	switch {
	case err != nil:
		return err
	case own != nil:
		return o.ownStdio(ctx, own, wait)
	}
	return bridge(ctx, stream)
}

// joinOrOwn finds the running gateway of a configuration, with which join
// succeeds, or makes one of its own, which is then not nil.
func (o *options) joinOrOwn(ctx context.Context, c *config.Config, state *stateDir, join func(*admin.Client) error) (*admin.Client, *instance, error) {
	token, err := state.secret("admin.token")
	if err != nil {
		return nil, nil, err
	}
	control := &admin.Client{Path: state.socket, Token: token}
	for attempt := 0; ; attempt++ {
		if err := join(control); !errors.Is(err, admin.ErrNotRunning) {
			return control, nil, controlError(err)
		}
		own, err := newInstance(ctx, o, c, state, "")
		if _, busy := errors.AsType[*store.InUseError](err); !busy || attempt >= joinAttempts {
			return nil, own, err
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
	switch {
	case errors.As(err, &refused):
		return exit(exitAuth, err)
	case errors.As(err, &rejected):
		return exit(exitConfig, err)
	}
	return exit(exitUnreachable, err)
}

const (
	joinAttempts = 50
	joinPause    = 100 * time.Millisecond
)

// ownStdio is the gateway of one client, which others may join meanwhile.
func (o *options) ownStdio(ctx context.Context, in *instance, wait time.Duration) error {
	id, err := in.identity(apiKey())
	if err != nil {
		in.close()
		return err
	}
	if wait > 0 {
		in.gateway.WaitFirst(wait)
	}
	return in.run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var others sync.WaitGroup
		defer others.Wait()
		defer cancel()
		others.Go(func() {
			if err := in.serveControl(ctx); err != nil {
				in.log.Warn("others cannot join this gateway", "err", err)
			}
		})
		others.Go(func() { _ = in.watchFiles(ctx) })
		others.Go(func() { _ = in.watchSignals(ctx) })
		return in.gateway.ServeStdio(ctx, id, proxy.Scope{}, os.Stdin, os.Stdout)
	})
}

// bridge joins stdin and stdout with a running gateway.
func bridge(ctx context.Context, stream io.ReadWriteCloser) error {
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	go func() { // ends with stdin, or with the process
		_, _ = io.Copy(stream, os.Stdin)
		if half, ok := stream.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	if _, err := io.Copy(os.Stdout, stream); err != nil && ctx.Err() == nil {
		return exitf(exitUnreachable, "the gateway is gone: %w", err)
	}
	return nil
}

// ServeStdio implements admin.Gateway.
func (in *instance) ServeStdio(ctx context.Context, key string, accept func() (io.Reader, io.Writer, error), refuse func(error)) error {
	id, err := in.identity(key)
	if err != nil {
		refuse(err)
		return err
	}
	r, w, err := accept()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(in.ctx, cancel)
	defer stop()
	return in.gateway.ServeStdio(ctx, id, proxy.Scope{}, r, w)
}
