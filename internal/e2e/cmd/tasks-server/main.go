// Command tasks-server is an MCP server whose tools run as tasks, in both
// ways that MCP has had for it: the extension io.modelcontextprotocol/tasks of
// 2026-07-28, and the tasks of 2025-11-25. It needs nothing but Go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "tasks-server:", err)
		}
		os.Exit(1)
	}
}

// run serves until its input ends (stdio), or until ctx ends or a signal arrives (HTTP).
func run(ctx context.Context, args []string, in io.Reader, out, logs io.Writer) error {
	flags := flag.NewFlagSet("tasks-server", flag.ContinueOnError)
	flags.SetOutput(logs)
	addr := flags.String("http", "", "serve streamable HTTP on this `address`, at every path; without it, stdio")
	era := flags.String("era", "both", "which revisions to speak: `both`, modern (2026-07-28) or legacy (2025-11-25)")
	ttl := flags.Duration("ttl", 5*time.Minute, "how long a task is kept, from its creation")
	poll := flags.Duration("poll", 250*time.Millisecond, "how often clients are told to ask for the state of a task")
	limit := flags.Int("tasks", 1000, "how many tasks are kept at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *era != "both" && *era != "modern" && *era != "legacy":
		return fmt.Errorf("-era is both, modern or legacy, not %q", *era)
	case *ttl < time.Millisecond || *ttl > maxTTL:
		return fmt.Errorf("-ttl is between 1ms and %s, not %s", maxTTL, *ttl)
	case *poll < time.Millisecond:
		return fmt.Errorf("-poll is at least 1ms, not %s", *poll)
	case *limit < 1:
		return fmt.Errorf("-tasks is at least 1, not %d", *limit)
	}
	s := newServer(*era, *limit, *ttl, *poll)
	defer s.tasks.close()
	if *addr == "" {
		return s.serveStdio(ctx, in, out)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	fmt.Fprintf(logs, "listening on http://%s\n", listener.Addr())
	return s.serveHTTP(ctx, listener)
}
