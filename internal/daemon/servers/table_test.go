//go:build !windows

package servers_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/catalogs"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a table with the configuration file that it serves.
type bench struct {
	*daemontest.Home
	*servers.Table
	ctx     context.Context // how long servers run
	changed atomic.Int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Home: daemontest.NewHome(t)}
	state := b.State()
	if err := os.MkdirAll(state.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Options{Path: b.Path("store.db"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := seal.NewKeyring(seal.Key{ID: "local", Secret: []byte(strings.Repeat("k", 32))})
	if err != nil {
		t.Fatal(err)
	}
	b.Table, err = servers.New(servers.Options{
		Log: log, Metrics: telemetry.New("test"), State: state, Catalogs: catalogs.NewSaver(s, keys, log), Unanswered: catalogs.NewUnanswered(s.Meta(), log),
		SignIn:  signin.New(signin.Options{Log: log, Store: s, Keys: keys}),
		Changed: func(string) { b.changed.Add(1) }, NativeChanged: func() {}, Relisted: func() {}, Happened: func(mcp.Event) {},
		BreakerChanged: func(string, string, guard.State, time.Time) {},
		Send:           func(_ string, of proxy.Backend) proxy.Backend { return of }, Queued: func(string, string) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	var end context.CancelFunc
	b.ctx, end = context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- b.Run(b.ctx) }() // ends with the cleanup
	storing, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- s.Run(storing) }() // ends with the cleanup
	t.Cleanup(func() {
		end()
		err := <-ended
		stop()
		if err := errors.Join(err, <-ended, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// plan plans what is written in the file.
func (b *bench) plan(t *testing.T, s daemontest.Servers, toolgate map[string]any) (*servers.Plan, error) {
	t.Helper()
	b.Write(t, s, toolgate)
	c, err := daemontest.Read(b.File)
	if err != nil {
		t.Fatal(err)
	}
	return b.Plan(c, c.Servers, build.KeepOff(c, build.OwnFiles(c, b.State())), false)
}

// use puts what is written in the file in force, waits for the servers and returns what
// is mounted, by namespace.
func (b *bench) use(t *testing.T, s daemontest.Servers, toolgate map[string]any) (mounts map[string]proxy.Mount, retire func(ended func())) {
	t.Helper()
	p, err := b.plan(t, s, toolgate)
	if err != nil {
		t.Fatal(err)
	}
	list, retire := b.Use(b.ctx, p)
	testwait.Until(t, daemontest.Patience, "every server is heard of", b.Settled)
	mounts = make(map[string]proxy.Mount)
	for _, m := range list {
		mounts[m.Namespace] = m
	}
	return mounts, retire
}

func (b *bench) states() []string {
	var out []string
	for _, row := range b.Rows() {
		out = append(out, row.Name+" "+row.State)
	}
	slices.Sort(out)
	return out
}

// Servers that are as they were go on, others start, and those that are gone end once
// they are retired.
func TestServersAreReusedAndRetired(t *testing.T) {
	b := newBench(t)
	declared := map[string]any{"tools": []any{map[string]any{"name": "hi", "namespace": "own", "type": "command", "args": []string{"/bin/echo", "hi"}, "sandbox": "off"}}}
	first, _ := b.use(t, daemontest.Servers{"same": daemontest.Fake("one"), "other": daemontest.Fake("one"), "gone": daemontest.Fake("child=" + b.Path("child"))}, declared)
	if got, want := b.states(), []string{"gone ready", "other ready", "own ready", "same ready"}; !slices.Equal(got, want) {
		t.Errorf("servers %v, want %v", got, want)
	}
	if b.changed.Load() == 0 {
		t.Error("nobody was told of the servers")
	}
	second, retire := b.use(t, daemontest.Servers{"same": daemontest.Fake("one"), "other": daemontest.Fake("two"), "off": {"command": "x", "disabled": true}}, declared)
	if got, want := b.states(), []string{"off disabled", "other ready", "own ready", "same ready"}; !slices.Equal(got, want) {
		t.Errorf("servers %v, want %v", got, want)
	}
	for name, reused := range map[string]bool{"same": true, "other": false, "own": true} {
		if got := first[name].Backend == second[name].Backend; got != reused {
			t.Errorf("%s: reused %t, want %t", name, got, reused)
		}
	}
	text, err := os.ReadFile(b.Path("child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(string(text))
	if err != nil || !daemontest.Alive(child) {
		t.Errorf("a server has ended before it is retired: process %s, %v", text, err)
	}
	ended := make(chan struct{})
	retire(func() { close(ended) })
	<-ended
	testwait.Until(t, daemontest.Patience, "what is gone has ended", func() bool { return !daemontest.Alive(child) })
	if _, runs := b.Status("gone"); runs {
		t.Error("a server that is gone is in the table")
	}
}

// What cannot be planned, or is planned and not used, leaves the table as it was.
func TestPlansThatAreNotUsed(t *testing.T) {
	b := newBench(t)
	b.use(t, daemontest.Servers{"a": daemontest.Fake("one")}, nil)
	before := b.states()
	tool := map[string]any{"name": "hi", "namespace": "own", "type": "http", "url": "https://example.org/"}
	p, err := b.plan(t, daemontest.Servers{}, map[string]any{"tools": []any{tool}})
	if err != nil {
		t.Fatal(err)
	}
	b.Discard(p)
	if got := b.states(); !slices.Equal(got, before) {
		t.Errorf("servers %v, want %v", got, before)
	}
}

// Tools that cannot be mounted are refused when they are planned. A plan that was made
// can always be put in force.
func TestDeclaredToolsThatCannotBeMounted(t *testing.T) {
	b := newBench(t)
	tool := map[string]any{"name": "hi", "namespace": "own", "type": "http", "url": "https://example.org/"}
	b.Write(t, daemontest.Servers{}, map[string]any{"tools": []any{tool}})
	c, err := daemontest.Read(b.File)
	if err != nil {
		t.Fatal(err)
	}
	c.Toolgate.Results.Redact.Patterns = []redact.Pattern{{Name: "bad", Match: "("}}
	if _, err := b.Plan(c, c.Servers, build.KeepOff(c, build.OwnFiles(c, b.State())), false); err == nil {
		t.Error("it was planned")
	}
}

// A table in which nothing runs answers all the same.
func TestEmptyTable(t *testing.T) {
	b := newBench(t)
	if !b.Settled() || len(b.Rows())+len(b.Known())+len(b.Breakers())+len(b.Listed())+len(b.SignIns())+len(b.NativeRates(&config.Config{})) != 0 {
		t.Error("an empty table has something")
	}
	if _, ok := b.Logs("a", false); ok || b.ResetBreaker("a", "") == nil || b.NativePID("a") != 0 || b.NativeListing("a") != nil {
		t.Error("an empty table knows a server")
	}
	b.ListAgain([]string{"a"})
	b.CredentialChanged("a", "p")
	b.CredentialsChanged()
}
