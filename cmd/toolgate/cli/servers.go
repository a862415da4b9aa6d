package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/profile"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/cmd/toolgate/secrets"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newServers(o *command.Options) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "servers",
		Short: "Restart servers, reset their circuit breakers, and manage those that agents have added",
		Long: `Restart servers, reset their circuit breakers, and manage the servers that agents have
added from those that the file offers (servers.NAME.offer). Only the caller who added
a server can use it, until it is promoted. toolgate ls shows all servers.`,
	}
	ls := &cobra.Command{
		Use: "ls", Short: "List added servers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				list, err := control.AddedServers(cmd.Context())
				if err != nil {
					return err
				}
				t := output.Table{Header: []string{"SERVER", "OFFER", "FOR", "STATE", "ARGUMENTS"}, Data: list, Empty: "no agent has added a server"}
				for _, s := range list {
					whose := "everyone"
					if !s.Promoted {
						whose = s.Subject + " of " + s.Tenant
					}
					t.Rows = append(t.Rows, []string{s.Server, s.Offer, whose, s.State, strings.Join(s.Arguments, " ")})
					t.Names = append(t.Names, s.Server)
				}
				return o.Print(os.Stdout, t)
			})
		},
	}
	o.OutputFlag(ls)
	promote := &cobra.Command{
		Use: "promote SERVER", Short: "Make a server available to everyone whom the gate lets see it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if err := control.PromoteServer(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				output.Say("promoted %s\n", args[0])
				return nil
			})
		},
	}
	promote.Flags().StringVar(&reason, "reason", "", "the reason, for the audit log")
	remove := &cobra.Command{
		Use: "remove SERVER", Short: "Remove a server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if err := control.RemoveServer(cmd.Context(), args[0]); err != nil {
					return err
				}
				output.Say("removed %s\n", args[0])
				return nil
			})
		},
	}
	c.AddCommand(newRestart(o), newBreakers(o, "breakers"), newReset(o), newProfile(o), ls, promote, remove)
	return c
}

func newRestart(o *command.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "restart SERVER",
		Short: "Start a server again, and say whether it is ready",
		Long: `Start a server of the running gateway again, although nothing about it has changed.
Calls in flight finish at the old process. The circuit breaker of the server starts
closed.`,
		Example: "  toolgate servers restart github",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if err := control.RestartServer(cmd.Context(), args[0]); err != nil {
					return err
				}
				return settled(cmd.Context(), control, args[0])
			})
		},
		ValidArgsFunction: completeServers(o),
	}
}

func newProfile(o *command.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "profile SERVER",
		Short: "Propose the sandbox of a stdio server",
		Long: `Propose a sandbox (servers.NAME.sandbox) for a stdio server. The command starts the
server confined, several times, outside of the gateway: it grants what the server
needs until it lists its tools, and then takes away what it does without. It prints
the settings to write, and changes nothing.

The tools are not called. Add what they work with, and network: full for tools that use
the network. What holds secrets, such as ~/.ssh, is never proposed.`,
		Example: "  toolgate servers profile files",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.LoadTarget(cmd.Context())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(c.Servers, func(s config.Server) bool { return s.Key == args[0] })
			if i < 0 {
				return failure.Newf(failure.Usage, "%s has no server %s", c.Path, args[0])
			}
			if err := c.Servers[i].Refused; err != nil {
				return failure.New(failure.Config, err)
			}
			state, err := statedir.Find(c.Path)
			if err != nil {
				return err
			}
			search := profile.Search{Server: &c.Servers[i], Config: c, Off: build.KeepOff(c, build.OwnFiles(c, state))}
			if o.Verbose {
				search.Log = func(what string) { output.Note("trying %s", what) }
			}
			found, err := search.Propose(cmd.Context())
			if err != nil {
				return failure.New(failure.Unreachable, err)
			}
			for _, path := range found.Withheld {
				output.Note("the server asked for %s, which is not proposed", path)
			}
			output.Say("%s", found.YAML(args[0]))
			return nil
		},
		ValidArgsFunction: completeServers(o),
	}
}

const (
	// restartTime is how long a restarted server may take before the command leaves it
	// to `toolgate ls`.
	restartTime = 2 * time.Minute
	// restartPause is how often its state is asked for meanwhile.
	restartPause = 100 * time.Millisecond
)

// settled waits until a server is no longer starting, and says what it is then. The error
// is for one that does not run.
func settled(ctx context.Context, control *admin.Client, server string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	tick := time.NewTicker(restartPause)
	defer tick.Stop()
	for {
		status, err := control.Status(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(status.Servers, func(s admin.Server) bool { return s.Name == server })
		switch {
		case i < 0:
			return failure.Newf(failure.Usage, "the server %s is gone; see `toolgate ls`", server)
		case status.Servers[i].State == mcp.Ready.String():
			output.Say("%s is ready, with %s\n", server, screen.Count(status.Servers[i].Tools, "tool"))
			return nil
		case status.Servers[i].State != mcp.Starting.String():
			return failure.Newf(failure.Unreachable, "%s; see `toolgate logs %s`", absentServer(&status.Servers[i]), server)
		}
		select {
		case <-ctx.Done():
			return failure.Newf(failure.Unreachable, "%s is still starting; see `toolgate ls`", server)
		case <-tick.C:
		}
	}
}

func newAdd(o *command.Options) *cobra.Command {
	var env, headers map[string]string
	var kind string
	c := &cobra.Command{
		Use:   "add NAME (URL | -- COMMAND [ARGUMENT ...])",
		Short: "Add a server to the file",
		Long: `Add a server to the configuration file, or replace the one of that name. Everything
else in the file stays as it is. A running gateway notices the change; toolgate reload
starts the server.`,
		Example: "  toolgate add files -- npx -y @modelcontextprotocol/server-filesystem .\n" +
			"  toolgate add github https://api.githubcopilot.com/mcp/ --header 'Authorization=Bearer ${GITHUB_TOKEN}'",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			entry, err := serverEntry(args[1:], cmd.ArgsLenAtDash() == 1, kind, env, headers)
			if err != nil {
				return err
			}
			return changeServers(o, func(path string, data []byte, section []string) ([]byte, error) {
				return edit.Set(path, data, section, args[0], entry)
			}, args[0], args[0]+" is in")
		},
	}
	c.Flags().StringToStringVar(&env, "env", nil, "`NAME=VALUE` for the program; a secret is better as ${NAME}")
	c.Flags().StringToStringVar(&headers, "header", nil, "`NAME=VALUE` for the requests; a secret is better as ${NAME}")
	c.Flags().StringVar(&kind, "type", "", "`transport` of a URL: http or sse; both are tried by default")
	return c
}

func newRemove(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a server from the file",
		Long: `Remove a server from the configuration file. Everything else in it stays as it is. A
running gateway notices the change by itself.`,
		Aliases: []string{"rm"},
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeServers(o, func(path string, data []byte, section []string) ([]byte, error) {
				out, err := edit.Delete(path, data, section, args[0])
				if err == nil && string(out) == string(data) {
					return nil, failure.Newf(failure.Usage, "%s has no server %q; `toolgate validate %s` lists its servers", path, args[0], path)
				}
				return out, err
			}, "", args[0]+" is no longer in")
		},
		ValidArgsFunction: completeFileServers(o),
	}
	return c
}

// serverEntry returns a server as it is written into a file.
func serverEntry(args []string, program bool, kind string, env, headers map[string]string) (edit.Map, error) {
	if !program && len(args) == 1 && strings.Contains(args[0], "://") {
		if len(env) > 0 {
			return nil, failure.Newf(failure.Usage, "--env is for programs; a server with a URL has --header")
		}
		var m edit.Map
		if kind != "" {
			m = append(m, edit.Field{Key: "type", Value: kind})
		}
		m = append(m, edit.Field{Key: "url", Value: args[0]})
		return appendTexts(m, "headers", headers), nil
	}
	if !program {
		return nil, failure.Newf(failure.Usage, "write -- before the command, so that its flags are its own: toolgate add NAME -- %s", strings.Join(args, " "))
	}
	if len(headers) > 0 || kind != "" {
		return nil, failure.Newf(failure.Usage, "--header and --type are for servers with a URL; a program has --env")
	}
	m := edit.Map{{Key: "command", Value: args[0]}}
	if len(args) > 1 {
		m = append(m, edit.Field{Key: "args", Value: args[1:]})
	}
	return appendTexts(m, "env", env), nil
}

// appendTexts adds a map of texts to a Map, unless it is empty.
func appendTexts(m edit.Map, key string, texts map[string]string) edit.Map {
	if len(texts) == 0 {
		return m
	}
	var inner edit.Map
	for _, name := range slices.Sorted(keysOf(texts)) {
		inner = append(inner, edit.Field{Key: name, Value: texts[name]})
	}
	return append(m, edit.Field{Key: key, Value: inner})
}

// ownFile returns the configuration file to change: the one in use, or a new one in this
// folder.
func ownFile(o *command.Options) (path string, data []byte, section []string, err error) {
	path, err = o.FindFile()
	if err != nil {
		return "", nil, nil, err
	}
	if path == "" {
		path = config.FileName
	}
	data, err = format.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil, failure.New(failure.Config, err)
	}
	root, err := format.ParseDocument(path, data)
	if err != nil {
		return "", nil, nil, failure.New(failure.Config, err)
	}
	return path, data, serversSection(root), nil
}

// serversSection returns where the servers of a file are: under the key of its client, or
// under mcpServers.
func serversSection(root *tree.Node) []string {
	for _, key := range []string{"mcpServers", "mcp_servers", "MCP_SERVERS", "context_servers", "amp.mcpServers", "servers"} {
		if n := root.Get(key); n != nil && n.Kind == tree.KindMap {
			return []string{key}
		}
	}
	return []string{"mcpServers"}
}

// changeServers changes the configuration file, unless the result would not be usable, or
// the server, if one is named, could not start as it is written.
func changeServers(o *command.Options, change func(path string, data []byte, section []string) ([]byte, error), server, did string) error {
	path, data, section, err := ownFile(o)
	if err != nil {
		return err
	}
	out, err := change(path, data, section)
	if err != nil {
		if _, coded := errors.AsType[*failure.Error](err); coded {
			return err
		}
		return failure.New(failure.Config, err)
	}
	if err := checkText(o, path, out, nil, server); err != nil {
		return failure.Newf(failure.Config, "the file would not be usable after this change, so it stays as it is: %w", err)
	}
	if err := replaceFile(path, out); err != nil {
		return err
	}
	output.Say("%s %s\n", did, path)
	if target.Runs(context.Background(), path) { // which has a deadline
		output.Say("`toolgate reload` has the running gateway take it over\n")
	}
	return command.AcceptWritten(path, data, out)
}

// checkText checks a configuration before it is written, together with variables and
// secrets that will be stored beside it. server is what was added; empty for none.
func checkText(o *command.Options, path string, data []byte, kept map[string]string, server string) error {
	lookup, _, err := command.Variables(path)
	if err != nil {
		return err
	}
	ring, _ := secrets.Reading()
	c, err := config.Parse(path, data, config.Options{
		LookupSecret: func(name string) (string, error) {
			if v, ok := kept[name]; ok {
				return v, nil
			}
			return ring(name)
		},
		LookupEnv: func(name string) (string, bool) {
			if v, ok := lookup(name); ok {
				return v, true
			}
			v, ok := kept[name]
			return v, ok
		},
		Environ: os.Environ(), Flags: o.Set,
	})
	if err != nil {
		return err
	}
	// A variable may be set later; anything else that refuses it is a mistake.
	if s, ok := c.Server(server); ok && s.Refused != nil && !errors.Is(s.Refused, clients.ErrUnset) {
		return s.Refused
	}
	return nil
}

// completeFileServers completes the first argument to a server of the file.
func completeFileServers(o *command.Options) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		path, err := o.FindFile()
		if err != nil || path == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := config.Load(path, config.Options{Raw: true})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for i := range c.Servers {
			out = append(out, describe(c.Servers[i].Key, string(c.Servers[i].Transport)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
