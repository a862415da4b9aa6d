package daemontest

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Options are those of a gateway whose log is discarded, and which reads files with the
// environment of the test.
func Options() daemon.Options {
	return daemon.Options{
		Log: func(*config.Config) (*slog.Logger, *logs.Writer) {
			w := logs.NewWriter(io.Discard)
			return logs.New(w, logs.JSON, slog.LevelError), w
		},
		Read: Read,
	}
}

// Read reads a configuration file. The gateway's own program is that of the test.
func Read(path string) (*config.Config, error) {
	o := config.Options{LookupEnv: os.LookupEnv, Environ: os.Environ()}
	if self, err := os.Executable(); err == nil {
		o.Self = append(o.Self, self)
	}
	c, err := config.Load(path, o)
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	return c, nil
}

// State is the state folder of a gateway of the home.
func (h *Home) State() *statedir.Dir {
	return &statedir.Dir{Path: h.Path("state"), Socket: h.Path("state/control.sock")}
}

// endTime is how long a gateway may take to end, calls under way included.
const endTime = 3 * time.Minute

// Running is a gateway in the process of the test, and how it is administered.
type Running struct {
	*daemon.Daemon
	*daemon.Control
	End func() error // ends the gateway; again, it returns the same
}

// Run runs the gateway of a home until the test or End is over. All its servers have
// been heard of when it returns.
func Run(t testing.TB, h *Home) *Running {
	t.Helper()
	c, err := Read(h.File)
	if err != nil {
		t.Fatal(err)
	}
	state := h.State()
	if err := os.MkdirAll(state.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(t.Context(), Options(), c, state, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() { // ends with cancel, at the latest in the cleanup
		ended <- d.Run(ctx, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return nil
		})
	}()
	end := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(endTime):
			debug.SetTraceback("all") // the stacks say why
			panic("the gateway of a test does not end")
		}
	})
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-began:
	case err := <-ended:
		ended <- err
		t.Fatalf("run: %v", err)
	}
	r := &Running{d, d.Control(), end}
	r.Settle(t)
	return r
}

// Settle waits until every server has been heard of, and clients are shown it.
func (r *Running) Settle(t testing.TB) {
	t.Helper()
	testwait.Until(t, Patience, "every server is heard of", r.Settled)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if r.Daemon.Settle(ctx); ctx.Err() != nil {
		t.Fatalf("not within %v: clients are shown what servers have listed", Patience)
	}
}

// Client returns a client on a stream of lines, as the owner of a key.
func (r *Running) Client(t testing.TB, key string) *lineclient.Client {
	t.Helper()
	here, there := lineclient.NewPipe()
	if err := r.ServeStream(t.Context(), key, "", there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	c := lineclient.New(here)
	c.Mute = true
	return c
}
