//go:build !windows

package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/queued"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
)

// queueOf is a section with a tool in the queue gpu.
func queueOf(url, key, word string) map[string]any {
	out := declaring(map[string]any{
		"name": "say", "namespace": "own", "type": "command", "sandbox": "auto", "args": []any{"echo", word + " {word}"}, "input_schema": properties("word"), "description": word,
	})
	out["queue"] = map[string]any{"engine": "postgres", "url": url, "queues": map[string]any{"gpu": map[string]any{"key": strings.Repeat(key, 64), "tools": []any{"own__*"}}}}
	return out
}

// work runs a worker with a configuration, in a home of its own, until the test or stop
// ends it. ended waits for one that ends by itself.
func work(t *testing.T, toolgate map[string]any) (stop, ended func() error) {
	t.Helper()
	h := newHome(t)
	h.write(t, servers{}, toolgate)
	c, err := config.Load(h.file, config.Options{LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	state, err := statedir.Find(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() {
		served <- queued.Worker{Name: "w", Queues: []string{"gpu"}, Capacity: 2}.Serve(ctx, c, state, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(cancel)
	ended = func() error { return <-served }
	stop = func() error {
		cancel()
		return ended()
	}
	return stop, ended
}

// A call of a tool in a queue waits for a worker, and is answered as if the tool ran in
// the gateway. A worker with another key, or another definition of the tool, is refused.
func TestWorker(t *testing.T) {
	t.Parallel()
	url := postgres.SchemaURL(t)
	h := newHome(t)
	settings := queueOf(url, "a", "one")
	h.write(t, servers{"a": fake()}, settings)
	r := h.newRunning(t)
	answered := make(chan string, 1)
	client := r.client(t)
	say := func(c *lineclient.Client) { answered <- text(t, c, "own__say", `{"word":"hello"}`) }
	go say(client)
	wrong := queueOf(url, "b", "one")
	_, refused := work(t, wrong)
	if err := refused(); err == nil || !strings.Contains(err.Error(), "the key of the queue gpu") {
		t.Errorf("a worker with another key: %v", err)
	} else if kind, ok := errors.AsType[*failure.Error](err); !ok || kind.Kind != failure.Auth {
		t.Errorf("%v", err)
	}
	select {
	case got := <-answered:
		t.Fatalf("it is answered without a worker: %s", got)
	default:
	}
	stop, _ := work(t, settings)
	if got := <-answered; got != "one hello\n" && got != "one hello" {
		t.Errorf("%q", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	other, _ := work(t, queueOf(url, "a", "two"))
	go say(client)
	if got := <-answered; !strings.Contains(got, "definition") {
		t.Errorf("a worker with another tool of the name: %s", got)
	}
	if err := other(); err != nil {
		t.Error(err)
	}
}

// A gateway starts without the engine of its queues, serves everything else, and has the
// queue once that is there.
func TestQueueWithoutItsEngine(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, queueOf("postgres://127.0.0.1:1/none", "a", "one"))
	r := h.newRunning(t)
	client := r.client(t)
	got := text(t, client, "own__say", `{"word":"hello"}`)
	if !strings.Contains(got, "gpu") || !strings.Contains(got, "cannot be reached") {
		t.Errorf("%s", got)
	}
	if got := text(t, client, "a__echo", `{"text":"x"}`); !strings.Contains(got, "x") {
		t.Errorf("%s", got)
	}
}
