package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy/auth"
)

func newUp(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:     "up [FILE...]",
		Aliases: []string{"serve", "run", "start"},
		Short:   "Serve every server of a file behind one URL",
		Long: `Serve every server of a file behind one URL. The file is a client's own (of Claude,
Cursor, VS Code, ...) or a toolgate.yaml. If there is no file anywhere, toolgate
serves a few built-in demo tools, offline.

Several files are served as one: the servers of all of them. What two files call by the
same name must be the same server. Only the first file may have settings of toolgate, and
other commands name the gateway by it.`,
		Example: "  toolgate up\n  toolgate up ~/.cursor/mcp.json\n  toolgate up toolgate.yaml ~/.claude.json",
		Args:    command.FilesArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUp(o, cmd.Context())
		},
	}
	c.Flags().StringVar(&o.Listen, "listen", "", "`address` to listen on instead of the configured one, such as 127.0.0.1:0")
	c.Flags().BoolVar(&o.ShippedSeed, "shipped-seed", false, "describe the tools that toolgate knows: their category, class, risk and cost")
	return c
}

// newStop tells how to stop a gateway. It stops none, because the program that started one,
// such as systemd, would start it again.
func newStop() *cobra.Command {
	return &cobra.Command{
		Use:    "stop",
		Short:  "Say how to stop a gateway",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := statedir.FindRunning(cmd.Context())
			if err != nil {
				return failure.New(failure.Config, err)
			}
			if len(all) == 0 {
				output.Say("no gateway is running\n")
				return nil
			}
			for i := range all {
				if all[i].Here == 0 {
					output.Say("the gateway of %s is a process of another container: stop it there\n", target.Files(&all[i]))
					continue
				}
				output.Say("the gateway of %s: press Ctrl-C in its terminal, or `kill %d`\n", target.Files(&all[i]), all[i].Here)
			}
			return nil
		},
	}
}

func runUp(o *command.Options, ctx context.Context) error {
	began := time.Now()
	surviveBrokenPipes()
	o.Awaits = true
	c, err := o.LoadConfig()
	if err != nil {
		return err
	}
	state, err := command.OpenState(o, c)
	if err != nil {
		return err
	}
	warnOf(c)
	generated, fresh, err := guardKey(c, state)
	if err != nil {
		return err
	}
	certs, err := listen.NewCertificates(c)
	if err != nil {
		return err
	}
	if problem := certs.Problem(time.Now()); problem != "" {
		output.Warn("%s", problem)
	}
	listener, err := listen.Open(ctx, c)
	if taken, ok := errors.AsType[*listen.InUseError](err); ok {
		return target.InUse(ctx, c.Path, taken.Address)
	}
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	o.Live = liveOutput(o)
	in, err := takePlace(o, ctx, c, state, generated)
	if err != nil {
		return heldBy(ctx, state, err)
	}
	if fresh != "" {
		// Only now is the key certain to be shown, and only by the holder of the store.
		if err := state.Create(guardKeyFile, generated); err != nil {
			in.Close()
			return err
		}
	}
	shown := newProgress(o, in)
	in.OnChange(shown.changed)
	state.Remember(c)
	return in.Run(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, shown.end)() // what ends then has not failed
		output.Say("toolgate %s  %s\n", version.Version, source(c))
		if fresh != "" {
			output.Say("API key (shown once)  %s\n", fresh)
			output.Say("clients send it as the header Authorization: Bearer KEY; to make another, remove %s and start again\n", filepath.Join(state.Path, guardKeyFile))
		}
		group, ctx := errgroup.WithContext(ctx)
		url := ""
		if listener != nil {
			url = build.ServerURL(c, listener.Addr())
			output.Paragraph(os.Stdout, fmt.Sprintf("MCP      %s/mcp  (older clients: %s/sse)", build.Reachable(url), build.Reachable(url)))
			group.Go(func() error { return in.ServeClients(ctx, listener, certs) })
		}
		pages, err := in.OpenConsole(ctx)
		taken, without := errors.AsType[*daemon.ConsoleTakenError](err)
		switch {
		case without:
			output.Say("console  none: %s is in use (listen.console takes another address)\n", taken.Address)
		case err != nil:
			return err
		case pages != nil:
			output.Say("console  %s/\n", in.ConsoleURL(pages))
			group.Go(func() error { return in.ServeConsole(ctx, pages) })
		}
		listening := make(chan struct{})
		group.Go(func() error { return in.ServeControl(ctx, url, func() { close(listening) }) })
		group.Go(func() error { return in.ServeMetrics(ctx) })
		group.Go(func() error { return in.WatchFiles(ctx) })
		group.Go(func() error { return in.WatchSignals(ctx) })
		group.Go(func() error {
			select {
			case <-listening: // what says "ready" can be asked
				shown.introduce(ctx, url, began)
				shown.watch(ctx)
			case <-ctx.Done():
			}
			return nil
		})
		return group.Wait()
	})
}

// takePlace creates the gateway of a configuration. A gateway that serves only clients of
// `toolgate stdio` ends for it, and its clients join this one.
func takePlace(o *command.Options, ctx context.Context, c *config.Config, state *statedir.Dir, generated string) (*daemon.Daemon, error) {
	token, err := state.Secret("admin.token")
	if err != nil {
		return nil, err
	}
	control := &admin.Client{Path: state.Socket, Token: token, Timeout: makeRoomTime}
	told := o.Quiet
	for end := time.Now().Add(takePlaceTime); ; {
		in, err := daemon.New(ctx, o.Daemon(), c, state, generated)
		held, busy := errors.AsType[*store.InUseError](err)
		if !busy || time.Now().After(end) {
			return in, err
		}
		// Without an answer, the other gateway is about to end, or another one is
		// starting.
		answer := control.MakeRoom(ctx)
		_, stays := errors.AsType[*admin.StaysError](answer)
		if _, refused := errors.AsType[*admin.RefusedError](answer); stays || refused {
			return nil, err
		}
		if !told {
			output.Note("waiting for process %d, which holds %s, to end", held.PID, held.Path)
			told = true
		}
		select {
		case <-time.After(takePlacePause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// heldBy is the error of a gateway that cannot start. If its store is in use by the gateway of
// the same configuration, it says where that one is.
func heldBy(ctx context.Context, state *statedir.Dir, err error) error {
	if _, busy := errors.AsType[*store.InUseError](err); busy {
		if r, ok := state.Running(ctx); ok {
			return target.Already(&r)
		}
	}
	return err
}

const (
	// takePlaceTime is how long the previous gateway may take to end.
	takePlaceTime = 30 * time.Second
	// makeRoomTime is how long its answer may take.
	makeRoomTime = 3 * time.Second
	// takePlacePause is shorter than the pause of clients that look for a gateway, so
	// that they find this one instead of starting their own.
	takePlacePause = command.TakeOverPause / 5
)

// source names the origin of the configuration.
func source(c *config.Config) string {
	if c.Path == "" {
		return "no configuration found: serving the built-in demo"
	}
	servers := "servers"
	if len(c.Servers) == 1 {
		servers = "server"
	}
	return fmt.Sprintf("%d %s from %s", len(c.Servers), servers, c.Names())
}

// warnOf says what a person should know of a configuration that is used.
func warnOf(c *config.Config) {
	for _, w := range c.Warnings {
		output.Warn("%s", w)
	}
	if len(c.Servers)+len(c.Toolgate.Tools) == 0 {
		output.Warn("%s", noServers(c))
	}
	for _, s := range c.Skipped {
		output.Warn("%s", skippedText(c, &s))
	}
}

// skippedText says why an entry of a configuration is no server.
func skippedText(c *config.Config, s *clients.Skipped) string {
	place := fmt.Sprintf("line %d", s.Line)
	if len(c.With) > 0 {
		place = fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	return fmt.Sprintf("%s (%s) is skipped: %s", s.Key, place, s.Reason)
}

// noServers says that a configuration has no servers, and how to add one.
func noServers(c *config.Config) string {
	return c.Names() + " has no server to run; add one such as mcpServers: { name: { command: ... } }"
}

// guardKeyFile is the file of the state folder that holds the hash of the
// generated API key.
const guardKeyFile = "api-key.sha256"

// guardKey makes a key for a gateway that others on the network can reach and that has no
// authentication. It returns the key's hash, and its text if it is new and must be
// stored.
func guardKey(c *config.Config, state *statedir.Dir) (sum, fresh string, err error) {
	if c.Toolgate.Listen.HTTP == "" || loopback.Address(c.Toolgate.Listen.HTTP) || c.Toolgate.Authenticates() {
		return "", "", nil
	}
	path := filepath.Join(state.Path, guardKeyFile)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fresh, sum = auth.Generate()
		return sum, fresh, nil
	case err != nil:
		return "", "", fmt.Errorf("read the generated API key: %w", err)
	}
	sum = strings.TrimSpace(string(text))
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", "", failure.Newf(failure.Config, "%s is damaged; remove it, and the next start makes a new key", path)
	}
	return sum, "", nil
}
