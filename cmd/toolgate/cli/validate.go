package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/cmd/toolgate/settings"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/proxy/auth"
)

func newValidate(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Check a configuration without starting anything",
		Long: `Check a configuration without starting anything. validate also checks the names in
rules, scopes, capsules, policy data and relations. It compares them with what the
running gateway of this configuration offers, or with what it offered when it last
ran. Without either, it compares them with the names that the servers can have. The
arguments of steps are compared with the tools as their servers last listed them. A
server that cannot start as it is written makes the exit code that of a configuration
error. Several files are checked as the one configuration that toolgate up makes of them.`,
		Args: command.FilesArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.LoadConfig()
			if err != nil {
				return err
			}
			known, err := identity.NewSet(&c.Toolgate, "")
			if err != nil {
				return err
			}
			known.Close()
			if err := daemon.CheckDeclared(c); err != nil {
				return err
			}
			if err := checkPlugins(c); err != nil {
				return err
			}
			g, err := build.NewGates(cmd.Context(), c, c.Toolgate.Authenticates(), build.Surroundings{})
			if err != nil {
				return err
			}
			if err := checkSeed(cmd.Context(), c, g.Catalog.Seed); err != nil {
				return err
			}
			if err := checkNames(cmd.Context(), c, references.By(c, g, known.Scopes)); err != nil {
				return err
			}
			warnOfSteps(cmd.Context(), c, g.Steps)
			if g.Policy != nil {
				for _, w := range g.Policy.Warnings() {
					output.Warn("%s", w)
				}
			}
			if err := o.Print(os.Stdout, validationTable(c)); err != nil {
				return err
			}
			return refusedServers(c)
		},
	}
	o.OutputFlag(c)
	return c
}

// refusedServers is the error for servers that cannot start as they are written.
func refusedServers(c *config.Config) error {
	refused := 0
	for i := range c.Servers {
		if !c.Servers[i].Disabled && c.Servers[i].Refused != nil {
			refused++
		}
	}
	switch refused {
	case 0:
		return nil
	case len(c.Servers):
		return failure.Newf(failure.Config, "%s cannot start", screen.Count(refused, "server"))
	}
	return failure.Newf(failure.Config, "%s cannot start; a gateway serves the rest", screen.Count(refused, "server"))
}

// checkedServer is a server as `validate` shows it.
type checkedServer struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Transport string `json:"transport"`
	Target    string `json:"target"`
	Status    string `json:"status"`
	Reason    string `json:"reason,omitempty"`
}

func validationTable(c *config.Config) output.Table {
	t := output.Table{Header: []string{"SERVER", "NAMESPACE", "TRANSPORT", "STATUS", "TARGET", "REASON"}, Empty: "no servers"}
	servers := []checkedServer{}
	for i := range c.Servers {
		s := &c.Servers[i]
		row := checkedServer{Name: s.Key, Namespace: s.Namespace, Transport: string(s.Transport), Status: "ok"}
		row.Target = hidden.URL(s.Written.URL)
		if s.Written.Command != "" {
			row.Target = strings.Join(append([]string{s.Written.Command}, s.Written.Args...), " ")
		}
		switch {
		case s.Disabled:
			row.Status = "disabled"
		case s.Refused != nil:
			row.Status, row.Reason = "refused", strings.ReplaceAll(s.Refused.Error(), "\n", "; ")
		}
		servers = append(servers, row)
		t.Rows = append(t.Rows, []string{row.Name, row.Namespace, row.Transport, row.Status, output.FirstLine(row.Target, 60), row.Reason})
		t.Names = append(t.Names, row.Name)
	}
	skipped := []string{}
	for _, s := range c.Skipped {
		skipped = append(skipped, fmt.Sprintf("%s (line %d): %s", s.Key, s.Line, s.Reason))
		output.Warn("%s", skippedText(c, &s))
	}
	for _, w := range c.Warnings {
		output.Warn("%s", w)
	}
	for _, u := range daemon.UnconfinedOf(c, sandbox.Available) {
		output.Warn("%s", u)
	}
	if len(c.Servers)+len(c.Toolgate.Tools) == 0 {
		output.Warn("%s", noServers(c))
	}
	t.Data = map[string]any{"file": c.Path, "servers": servers, "skipped": skipped}
	return t
}

func newConfig(o *command.Options) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show the configuration in force, and explain settings", Long: "Show the configuration in force, and explain settings.\n\n" + command.SearchOrder}
	var origin, everything bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Show the settings that are not defaults, and with --origin where they come from",
		Args:  command.FileArgument(o),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.LoadTarget(cmd.Context())
			if err != nil {
				return err
			}
			return o.Print(os.Stdout, settingsTable(c, origin, everything))
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	show.Flags().BoolVar(&everything, "all", false, "show the defaults, too")
	o.OutputFlag(show)
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the file, for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := os.Stdout.Write(config.Schema())
			return err
		},
	}
	c.AddCommand(show, newExplain(), schema)
	return c
}

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:     "explain SETTING",
		Short:   "Explain a setting, and list those below it",
		Example: "  toolgate config explain listen.http\n  toolgate config explain budgets",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return settings.Explain(os.Stdout, args[0])
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return settings.Names(begun), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// settingsTable shows settings, and with origin where they come from.
func settingsTable(c *config.Config, origin, all bool) output.Table {
	list := settings.Of(c, all)
	t := output.Table{Header: []string{"SETTING", "VALUE"}, Empty: "every setting has its default; --all shows them"}
	if origin {
		t.Header = append(t.Header, "ORIGIN")
	}
	for i := range list {
		s := &list[i]
		row := []string{s.Path, s.Value}
		if origin {
			row = append(row, s.Origin)
		} else {
			s.Origin = ""
		}
		t.Rows = append(t.Rows, row)
		t.Names = append(t.Names, s.Path)
	}
	t.Data = map[string]any{"file": c.Path, "settings": list}
	return t
}

func newKey() *cobra.Command {
	c := &cobra.Command{Use: "key", Short: "Make API keys for callers"}
	c.AddCommand(&cobra.Command{
		Use:   "new",
		Short: "Make an API key: its text for the client, its SHA-256 for the file",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, sum := auth.Generate()
			output.Say("key     %s\nsha256  %s\n", text, sum)
			output.Note("give the key to the client and write the sha256 under toolgate.auth.keys; the key itself is not stored")
			return nil
		},
	})
	return c
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			output.Say("%s\n", versionLine())
			return nil
		},
	}
}

// versionLine names this program's version, revision and platform.
func versionLine() string {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	return fmt.Sprintf("toolgate %s%s %s %s/%s", version.Version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// checkNames compares the names in a configuration with what its gateway is known to
// offer.
func checkNames(ctx context.Context, c *config.Config, m references.Mentioned) error {
	targets, err := references.Known(ctx, c)
	if err != nil {
		output.Warn("names are checked against the file alone, because what the gateway offers is unknown: %v", err)
		targets = references.NewTargets(c)
	}
	if len(targets.Servers) == 0 && len(targets.Offers) == 0 {
		return nil // which has its own warning
	}
	var problems []error
	for _, p := range m.Dangling(targets) {
		problems = append(problems, errors.New(build.ProblemText(p)))
	}
	return failure.New(failure.Config, errors.Join(problems...))
}

// checkSeed refuses a seed with names that no server offers, as far as earlier runs know
// them.
func checkSeed(ctx context.Context, c *config.Config, seed *registry.Seed) error {
	if seed == nil {
		return nil
	}
	records, err := statedir.KnownCatalog(ctx, c)
	if err != nil {
		output.Warn("the names in the seed are not checked: %v", err)
		return nil
	}
	seen := make(map[string]bool)
	for i := range records {
		seen[records[i].Server] = true
	}
	all := true // servers have been seen
	for i := range c.Servers {
		all = all && (seen[c.Servers[i].Key] || c.Servers[i].Disabled)
	}
	var problems []error
	for _, e := range seed.Unmatched(records) {
		if seen[e.Server] || e.Server == "" && all {
			problems = append(problems, fmt.Errorf("%s: no server offers %s; `toolgate catalog ls` lists what they offer", e.At.Place(), &e))
		}
	}
	return failure.New(failure.Config, errors.Join(problems...))
}

// warnOfSteps says which steps have arguments that the tools of servers do not take, as far as
// earlier runs know these tools. A server may list others by the time that it runs.
func warnOfSteps(ctx context.Context, c *config.Config, steps *composite.Phase) {
	if steps == nil {
		return
	}
	records, err := statedir.KnownCatalog(ctx, c)
	if err != nil {
		output.Warn("the arguments of steps are not compared with the tools of servers: %v", err)
		return
	}
	steps.Learn(references.LastOffers(c, records))
	for _, text := range steps.Misfits() {
		output.Warn("%s; this is how the server last listed the tool", text)
	}
}

// limitWarnings says which clients cannot use a list of tools as it is. It assumes that
// toolgate is called "toolgate" in the client's file.
func limitWarnings(names []string) []string {
	var out []string
	for _, c := range clients.All() {
		l := &c.Limits
		if l.Tools > 0 && len(names) > l.Tools {
			out = append(out, fmt.Sprintf("%s accepts at most %d tools; this list has %d", c.Title, l.Tools, len(names)))
		}
		long, example := 0, ""
		for _, n := range names {
			if l.Name > 0 && len(c.Shown(n)) > l.Name {
				long, example = long+1, n
			}
		}
		if long > 0 {
			out = append(out, fmt.Sprintf("%s accepts names of %d characters with its prefix; %d are longer, such as %s", c.Title, l.Name, long, example))
		}
	}
	return out
}

// granted returns what of the paths that a sandbox grants does not exist.
func granted(c *config.Config, prefix string, read, write, run []string) (wrong []error) {
	for _, grant := range []struct {
		key   string
		paths []string
	}{{"read", read}, {"write", write}, {"run", run}} {
		for _, path := range grant.paths {
			if _, err := os.Stat(path); err != nil {
				wrong = append(wrong, fmt.Errorf("%s%s%s: what is granted must exist: %w", placeOf(c, prefix+grant.key), prefix, grant.key, err))
			}
		}
	}
	return wrong
}

// checkPlugins checks what is granted to the plugins and servers of a configuration that
// does not run: it must exist, and it must not belong to the gateway itself.
func checkPlugins(c *config.Config) error {
	plugins := c.Toolgate.Native.Plugins
	confined := slices.DeleteFunc(slices.Clone(c.Servers), func(s config.Server) bool { return s.Sandbox == nil })
	if len(plugins) == 0 && len(confined) == 0 {
		return nil
	}
	state, err := statedir.Find(c.Path)
	if err != nil {
		return err
	}
	off := build.KeepOff(c, build.OwnFiles(c, state))
	wrong := []error{build.CheckSandboxes(confined, c, off)}
	for i := range confined {
		set := confined[i].Sandbox
		wrong = append(wrong, granted(c, "servers."+confined[i].Key+".sandbox.", set.Read, set.Write, set.Run)...)
	}
	for _, key := range slices.Sorted(maps.Keys(plugins)) {
		n := plugins[key]
		if n.Sandbox == "off" {
			continue // nothing is granted
		}
		prefix := "native.plugins." + key + "."
		wrong = append(wrong, granted(c, prefix, n.Read, n.Write, n.Run)...)
		if _, err := build.PluginSpec(native.Spec{Key: key}, &n, c, off); err != nil {
			wrong = append(wrong, fmt.Errorf("%s%w", placeOf(c, prefix), err))
		}
	}
	return failure.New(failure.Config, errors.Join(wrong...))
}

// placeOf returns the position of a setting, to be followed by what is wrong with it.
func placeOf(c *config.Config, prefix string) string {
	if at := build.RuleAt(c, prefix); at.Line > 0 {
		return fmt.Sprintf("%s:%d: ", at.File, at.Line)
	}
	return c.Path + ": "
}
