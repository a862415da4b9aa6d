package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/decide"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newList(o *command.Options) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the servers with their state",
		Long: `List the servers with their state. TOOLS and TOKENS count what a server offers;
toolgate tools lists what clients see of it. The states are:

` + statesText(),
		Args: command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := awaitRunning(o, cmd.Context(), wait); err != nil {
				return err
			}
			return o.WithGateway(cmd.Context(), func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
				if own != nil {
					return printStatus(o, own.Control().Status())
				}
				status, err := control.Status(ctx)
				if err != nil {
					return command.ControlError(err)
				}
				return printStatus(o, status)
			})
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "wait up to this long until no server is starting, or about to move to another gateway")
	o.OutputFlag(c)
	return c
}

// awaitStart is how long a gateway that was started just before the command may take
// until it answers.
const awaitStart = 3 * time.Second

// awaitRunning waits until none of the servers of the gateway that the command talks to is
// starting, or about to move. It does not wait if wait is 0, and not for a gateway that does not run after
// awaitStart.
func awaitRunning(o *command.Options, ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	whole, began := ctx, time.Now()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var last error                                                     // what the latest answer lacked
	asking, done := context.WithTimeout(whole, max(wait, time.Second)) // so that the first question is answered
	defer done()
	for {
		path, control, err := o.Control(whole) // it may have started since
		if err != nil {
			return err
		}
		status, err := control.Status(asking)
		switch starting, moving := startingOf(status.Servers), movingOf(status.Servers); {
		case err == nil && len(starting)+len(moving) == 0:
			return nil
		case err == nil && len(starting) == 0:
			last = fmt.Errorf("still about to run at another gateway: %s; wait longer, or see the log of that one", strings.Join(moving, ", "))
		case err == nil:
			last = fmt.Errorf("still starting: %s; wait longer, or see `toolgate logs %s`", strings.Join(starting, ", "), starting[0])
		case errors.Is(err, admin.ErrNotRunning) && wait > awaitStart && time.Since(began) >= awaitStart:
			o.SettleWithin = wait
			return nil
		case errors.Is(err, admin.ErrNotRunning):
			last = target.NotRunning(path)
		case ctx.Err() == nil || last == nil:
			last = err
		}
		asking = ctx
		select {
		case <-ctx.Done():
			return failure.Newf(failure.Unreachable, "after %v: %w", wait, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startingOf names the servers that are starting.
func startingOf(servers []admin.Server) []string {
	var all []string
	for i := range servers {
		if servers[i].State == mcp.Starting.String() {
			all = append(all, servers[i].Name)
		}
	}
	return all
}

// movingOf names the servers that are about to run at another gateway.
func movingOf(servers []admin.Server) []string {
	var all []string
	for i := range servers {
		if servers[i].Moving {
			all = append(all, servers[i].Name)
		}
	}
	return all
}

// printStatus prints the servers, and for a person also what is pending.
func printStatus(o *command.Options, s admin.Status) error {
	t := serverTable(s.Servers)
	s.Servers = append([]admin.Server{}, s.Servers...)
	t.Data = s
	if err := o.Print(os.Stdout, t); err != nil || o.Output != "table" && o.Output != "wide" {
		return err
	}
	if len(s.Pending) > 0 {
		output.Say("waiting for `toolgate reload`:\n")
		for _, path := range s.Pending {
			output.Say("  setting %s\n", path)
		}
	}
	for _, row := range laterRows(s.AtNextStart) {
		output.Say("%s\n", row[0])
	}
	decide.PrintOperation(&s)
	if command.Talks(o) && slices.ContainsFunc(s.Servers, needsLegend) {
		output.Note("`toolgate ls --help` says what the states mean")
	}
	return nil
}

// states are those in the lists of servers, as texts for people.
var states = []struct{ state, means string }{
	{mcp.Ready.String(), "it answers, and its tools can be called"},
	{mcp.Starting.String(), "it has not answered yet"},
	{mcp.Failed.String(), "REASON says why; it is tried again, unless its entry is wrong"},
	{mcp.NeedsLogin.String(), "sign in with toolgate login SERVER"},
	{mcp.Reconnecting.String(), "its connection was lost, and a new one is being opened"},
	{mcp.Stale.String(), "it cannot be reached; the tools that it had are listed"},
	{mcp.Degraded.String(), "it answers, but REASON says what cannot be used"},
	{mcp.Disabled.String(), "the configuration switches it off"},
	{"pending", "it is new in the file; toolgate reload starts it"},
	{lastKnown, "its tools are those of an earlier start, until it answers"},
	{"(breaker ...)", "it kept failing, so calls are refused for a while"},
}

// lastKnown marks a server whose tools are those of an earlier start.
const lastKnown = "(last known)"

// statesText says what the states mean, in lines.
func statesText() string {
	lines := make([]string, len(states))
	for i, s := range states {
		lines[i] = fmt.Sprintf("  %-14s %s", s.state, s.means)
	}
	return strings.Join(lines, "\n")
}

// needsLegend tells whether a server is in a state that not everybody understands.
func needsLegend(s admin.Server) bool {
	switch s.State {
	case mcp.Ready.String(), mcp.Starting.String(), mcp.Failed.String(), mcp.Disabled.String():
		return s.Stale || s.Breaker != ""
	}
	return true
}

func serverTable(servers []admin.Server) output.Table {
	t := output.Table{
		Header: []string{"SERVER", "KIND", "STATE", "TOOLS", "TOKENS", "IN STATE", "REASON", "NAMESPACE", "ERA", "PROTOCOL", "PROMPTS", "RESOURCES", "SANDBOX"},
		Wide:   6,
	}
	for _, s := range servers {
		state := s.State
		if s.Stale && s.State != mcp.Stale.String() && s.State != mcp.NeedsLogin.String() {
			state += " " + lastKnown
		}
		if s.Breaker != "" {
			state += " (breaker " + s.Breaker + ")"
		}
		t.Rows = append(t.Rows, []string{
			s.Name, s.Kind, state, fmt.Sprint(s.Tools), output.Short(s.Tokens), output.Seconds(s.Seconds), s.Reason,
			s.Namespace, s.Era, s.Version, fmt.Sprint(s.Prompts), fmt.Sprint(s.Resources + s.Templates), s.Sandbox,
		})
		t.Names = append(t.Names, s.Name)
	}
	return t
}

func newTools(o *command.Options) *cobra.Command {
	var q admin.CatalogQuery
	var check func() error
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools as clients see them, with their cost in tokens",
		Args:  command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := check(); err != nil {
				return err
			}
			return o.WithGateway(cmd.Context(), func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
				client, end, err := openClient(ctx, o, control, own)
				if err != nil {
					return err
				}
				defer end()
				only, err := catalogNames(ctx, q, control, own)
				if err != nil {
					return err
				}
				return listTools(o, ctx, client, statusOf(control, own), only)
			})
		},
	}
	check = decide.CatalogFilters(c, &q)
	o.OutputFlag(c)
	c.AddCommand(newToolsShow(o), newLint(o), newExport(o), newDeclared(o), newDynamic(o))
	for _, old := range newDeclaring(o) { // they can be typed without "store", too
		c.AddCommand(unlisted(old))
	}
	return c
}

// catalogNames are the names of the tools that a query selects; nil for all.
func catalogNames(ctx context.Context, q admin.CatalogQuery, control *admin.Client, own *daemon.Daemon) (map[string]bool, error) {
	if q == (admin.CatalogQuery{}) {
		return nil, nil
	}
	q.Kind = mcp.Tool.String()
	catalog := control.Catalog
	if own != nil {
		catalog = own.Control().Catalog
	}
	entries, err := catalog(ctx, q)
	if err != nil {
		return nil, err
	}
	only := make(map[string]bool, len(entries))
	for i := range entries {
		only[entries[i].Name] = true
	}
	return only, nil
}

// withClient calls use with an MCP client of the configuration's gateway, and with a
// function that returns its status.
func withClient(o *command.Options, ctx context.Context, use func(context.Context, *lineclient.Client, statusFunc) error) error {
	return o.WithGateway(ctx, func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
		client, end, err := openClient(ctx, o, control, own)
		if err != nil {
			return err
		}
		defer end()
		return use(ctx, client, statusOf(control, own))
	})
}

// openClient returns an MCP client of a gateway, and what ends it.
func openClient(ctx context.Context, o *command.Options, control *admin.Client, own *daemon.Daemon) (*lineclient.Client, func(), error) {
	stream, err := o.Stream(ctx, control, own)
	if err != nil {
		return nil, nil, err
	}
	return lineclient.New(stream), func() { stream.Close() }, nil
}

// statusOf returns a function that tells the state of a gateway.
func statusOf(control *admin.Client, own *daemon.Daemon) statusFunc {
	return func(ctx context.Context) (admin.Status, error) {
		if own != nil {
			return own.Control().Status(), nil
		}
		return control.Status(ctx)
	}
}

// statusFunc returns the state of a gateway.
type statusFunc func(context.Context) (admin.Status, error)

// absent says for each server that offers nothing now why it does not.
func (f statusFunc) absent(ctx context.Context) []string {
	status, err := f(ctx)
	if err != nil {
		return nil // the command itself says more
	}
	var out []string
	for i := range status.Servers {
		s := &status.Servers[i]
		if why := absentServer(s); why != "" {
			out = append(out, why)
		} else if s.Unreviewed != nil {
			out = append(out, "server "+s.Name+": "+s.Reason)
		}
	}
	return out
}

// held tells whether the definition of a tool is held.
func (f statusFunc) held(ctx context.Context, tool string) bool {
	status, err := f(ctx)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(status.Servers, func(s admin.Server) bool {
		return s.Unreviewed != nil && slices.Contains(s.Unreviewed.HeldNames, tool)
	})
}

// absentFor says why the server of a tool offers nothing now; empty if it offers something
// or no server has that prefix. others is how many other servers offer nothing.
func (f statusFunc) absentFor(ctx context.Context, tool string) (owner string, others int) {
	status, err := f(ctx)
	if err != nil {
		return "", 0
	}
	for i := range status.Servers {
		s := &status.Servers[i]
		switch why := absentServer(s); {
		case why == "":
		case s.Namespace != "" && strings.HasPrefix(tool, s.Namespace+"__"):
			owner = why
		default:
			others++
		}
	}
	return owner, others
}

// absentServer says why a server offers nothing now; empty if it offers something.
func absentServer(s *admin.Server) string {
	if s.State == mcp.Ready.String() || s.State == mcp.Disabled.String() || s.Stale {
		return ""
	}
	how := "is " + s.State
	switch s.State {
	case mcp.Failed.String():
		how = "has failed"
	case mcp.NeedsLogin.String():
		how = "needs a login"
	}
	return strings.TrimSuffix(fmt.Sprintf("server %s %s: %s", s.Name, how, s.Reason), ": ")
}

// toolRow is a tool as `tools` shows it.
type toolRow struct {
	Name        string `json:"name"`
	Tokens      int    `json:"tokens"`
	ReadOnly    *bool  `json:"read_only,omitempty"`
	Description string `json:"description"`
}

// readOnlyHint is what the server of a tool says about it: nil if nothing.
func readOnlyHint(tool []byte) *bool {
	hint := mcp.Lookup(tool, "annotations", "readOnlyHint")
	if hint == nil {
		return nil
	}
	yes := string(hint) == "true"
	return &yes
}

func readOnlyText(hint *bool) string {
	if hint == nil {
		return "-"
	}
	return yesNo(*hint)
}

func listTools(o *command.Options, ctx context.Context, client *lineclient.Client, status statusFunc, only map[string]bool) error {
	items, err := client.All(ctx, mcp.Tool)
	if err != nil {
		return refusedError(err)
	}
	rows := make([]toolRow, 0, len(items))
	t := output.Table{Header: []string{"TOOL", "TOKENS", "READ-ONLY", "DESCRIPTION"}, Empty: "no tools"}
	total := 0
	for _, raw := range items {
		row := toolRow{Tokens: build.ToolTokens(raw)}
		if row.Name, _ = mcp.LookupString(raw, "name"); only != nil && !only[row.Name] {
			continue
		}
		row.Description, _ = mcp.LookupString(raw, "description")
		row.ReadOnly = readOnlyHint(raw)
		total += row.Tokens
		rows = append(rows, row)
		t.Rows = append(t.Rows, []string{row.Name, fmt.Sprint(row.Tokens), readOnlyText(row.ReadOnly), output.FirstLine(row.Description, 72)})
		t.Names = append(t.Names, row.Name)
	}
	warnings := limitWarnings(t.Names)
	t.Data = map[string]any{"tools": rows, "tokens": total, "warnings": append([]string{}, warnings...)}
	if err := o.Print(os.Stdout, t); err != nil {
		return err
	}
	if o.Output == "table" || o.Output == "wide" {
		output.Say("%s, about %s tokens\n", screen.Count(len(rows), "tool"), output.Short(total))
		for _, w := range slices.Concat(status.absent(ctx), warnings) {
			output.Warn("%s", w)
		}
	}
	return nil
}
