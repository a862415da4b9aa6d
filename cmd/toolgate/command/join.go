package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// APIKey returns the client's key or token from its environment, because stdio has no
// headers.
func APIKey() string { return os.Getenv("TOOLGATE_API_KEY") }

// TakeOverPause is how long a client without a gateway waits before it looks for one.
const TakeOverPause = 100 * time.Millisecond

// JoinOrOwn finds the running gateway of a configuration for which join succeeds.
// Otherwise it creates a gateway of its own, which is then not nil. It tries again while
// a gateway that cannot be joined holds the lock of the state folder.
func (o *Options) JoinOrOwn(ctx context.Context, c *config.Config, state *statedir.Dir, attempts int, join func(*admin.Client) error) (*admin.Client, *daemon.Daemon, error) {
	token, err := state.Secret("admin.token")
	if err != nil {
		return nil, nil, err
	}
	control := &admin.Client{Path: state.Socket, Token: token}
	for attempt := 0; ; attempt++ {
		switch err := join(control); {
		case errors.Is(err, admin.ErrNoAnswer) && attempt < attempts: // the gateway is about to end
		case !errors.Is(err, admin.ErrNotRunning):
			return control, nil, ControlError(err)
		default:
			own, err := daemon.New(ctx, o.Daemon(), c, state, "")
			held, busy := errors.AsType[*store.InUseError](err)
			if !busy || attempt >= attempts || attempt == JoinAttempts && target.Serves(ctx, held.PID) {
				return nil, own, err
			}
			if attempt == joinQuiet && !o.Quiet {
				output.Note("waiting for %s, which runs the same servers", held.Holder())
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

// ControlError gives an error of the control socket its exit code.
func ControlError(err error) error {
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

// settleTime is how long a command waits for the servers of a gateway that it started for
// itself.
const settleTime = 60 * time.Second

// waitSettled waits until every server has answered or failed, and says on stderr which
// ones are slow.
func (o *Options) waitSettled(ctx context.Context, in *daemon.Daemon) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.SettleWithin, settleTime))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began, next := time.Now(), 2*time.Second // then after twice the time, and so on
	for !in.Settled() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(began) > next && !o.Quiet {
			next *= 2
			for _, s := range in.Control().Servers() {
				if s.State == mcp.Starting.String() {
					output.Note("waiting for %s, %.0f s", s.Name, time.Since(began).Seconds())
				}
			}
		}
	}
	in.Settle(ctx)
}

// Stream opens a line stream to a gateway, with the caller's identity.
func (o *Options) Stream(ctx context.Context, control *admin.Client, own *daemon.Daemon) (io.ReadWriteCloser, error) {
	key := APIKey()
	if control != nil {
		stream, err := control.Stdio(ctx, key, o.View)
		return stream, ControlError(err)
	}
	here, there := lineclient.NewPipe()
	if err := own.ServeStream(ctx, key, o.View, there); err != nil {
		return nil, err
	}
	return here, nil
}

const (
	JoinAttempts = 120 // longer than calls may take to end by default
	joinPause    = 100 * time.Millisecond
	joinQuiet    = 20 // attempts before it is said what is waited for
	// commandAttempts is for one command that waits for another one, which may wait for
	// slow servers first.
	commandAttempts = int((settleTime + 30*time.Second) / joinPause)
)
