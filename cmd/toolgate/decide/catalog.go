// Package decide has the commands about what may be called: the catalog, approvals, the
// operating mode, budgets and SpiceDB.
package decide

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

// catalogOptions are the flags that the commands about the catalog share.
type catalogOptions struct {
	*command.Options
	kind   string
	reason string
}

func NewCatalog(o *command.Options) *cobra.Command {
	c := &catalogOptions{Options: o}
	root := &cobra.Command{
		Use:   "catalog",
		Short: "Review and control which capabilities are exposed, and to whom",
		Long: `Review and control which capabilities are exposed, and to whom. The catalog has every
tool, prompt, resource and template that a server ever listed, with its accepted
definition. The commands talk to the running gateway; all gateways that share its
store follow within a second.

A NAME is the name that clients know, a capability id, or SERVER/ORIGINAL.`,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.kind, "kind", "", "tool, prompt, resource or template: the `kind` to choose if several have the name")
	root.AddCommand(
		c.ls(), c.show(), c.history(), c.diff(), c.enable(), c.disable(), c.flag(), c.restrict(), c.class(), c.accept(), c.seed(), c.orphans(), newSync(o),
	)
	return root
}

func (c *catalogOptions) ls() *cobra.Command {
	q := admin.CatalogQuery{}
	var check, stateIs func() error
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the catalog",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(stateIs(), check()); err != nil {
				return err
			}
			q.Kind = c.kind
			return c.list(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&q.Server, "server", "", "only what this `server` offers")
	cmd.Flags().StringVar(&q.State, "state", "", "only entries that are active, held, orphaned or refused")
	check = CatalogFilters(cmd, &q)
	states := []string{store.StateActive, store.StateHeld, store.StateOrphaned, "refused"}
	stateIs = func() error { return oneOf(cmd, "state", states) }
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	c.OutputFlag(cmd)
	return cmd
}

// CatalogFilters gives a command flags that select entries of the catalog, and returns
// what checks their values.
func CatalogFilters(cmd *cobra.Command, q *admin.CatalogQuery) (check func() error) {
	cmd.Flags().StringVar(&q.Category, "category", "", "only tools of this `category`")
	cmd.Flags().StringVar(&q.Provider, "provider", "", "only what is of this `provider`: mcp, native or external")
	cmd.Flags().StringVar(&q.Source, "source", "", "only entries of this `source`: discovery, dynamic, shipped, seed or operator")
	cmd.Flags().StringVar(&q.Class, "class", "", "only what is of this `class`: read-only, write or destructive")
	cmd.Flags().StringVar(&q.Risk, "risk", "", "only what is of this `risk`: low, medium or high")
	cmd.Flags().StringVar(&q.Mode, "mode", "", "only what this operating `mode` would let pass")
	words := map[string][]string{
		"provider": {store.ProviderMCP, store.ProviderNative, store.ProviderExternal},
		"source":   {registry.SourceDiscovery, registry.SourceDynamic, registry.SourceShipped, registry.SourceSeed, registry.SourceOperator},
		"class":    {registry.ClassReadOnly, registry.ClassWrite, registry.ClassDestructive},
		"risk":     {"low", "medium", "high"},
	}
	for flag, known := range words {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	}
	return func() error {
		for _, flag := range slices.Sorted(maps.Keys(words)) {
			if err := oneOf(cmd, flag, words[flag]); err != nil {
				return err
			}
		}
		return nil
	}
}

func (c *catalogOptions) list(ctx context.Context, q admin.CatalogQuery) error {
	return c.WithControl(ctx, func(control *admin.Client) error {
		all, err := control.Catalog(ctx, q)
		if err != nil {
			return err
		}
		return c.Print(os.Stdout, catalogTable(all))
	})
}

// oneOf refuses a flag whose value is none of the words.
func oneOf(cmd *cobra.Command, flag string, words []string) error {
	value := cmd.Flag(flag).Value.String()
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return failure.Newf(failure.Usage, "--%s %q: write %s or %s", flag, value, strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
}

// ClassText is the class of an entry. What nobody has classed counts as destructive.
func ClassText(e *admin.CatalogEntry) string {
	if e.Said == "" && e.Class == registry.ClassDestructive {
		return "unclassed (as destructive)"
	}
	return e.Class
}

// catalogTable shows entries of the catalog.
func catalogTable(all []admin.CatalogEntry) output.Table {
	t := output.Table{
		Header: []string{"NAME", "KIND", "STATE", "ENABLED", "CLASS", "TENANTS", "KEPT FROM", "FLAGGED", "SERVER", "CATEGORY", "PROVIDER", "SOURCE", "RISK", "CHANGED BY", "ID"},
		Wide:   7, Data: all, Empty: "the catalog has no such entry",
	}
	inMode := len(all) > 0 && all[0].InMode != ""
	if inMode {
		t.Header = slices.Insert(t.Header, 4, "IN THE MODE")
	}
	for i := range all {
		e := &all[i]
		flagged := ""
		if len(e.Flagged) > 0 {
			flagged = output.FirstLine(strings.Join(e.Flagged, "; "), 60)
		}
		var tenants []string
		for _, tenant := range slices.Sorted(maps.Keys(e.Tenants)) {
			tenants = append(tenants, tenant+"="+onOff(e.Tenants[tenant]))
		}
		enabled := onOff(e.Enabled)
		if !e.Decided {
			enabled += " (default)"
		}
		row := []string{
			safe(e.Name), e.Kind, e.State, enabled, ClassText(e), strings.Join(tenants, " "), strings.Join(e.DeniedPersonas, " "),
			flagged, e.Server, e.Category, e.Provider, e.Source, e.Risk, e.Actor, e.ID,
		}
		if inMode {
			row = slices.Insert(row, 4, map[string]string{"pass": "passes", "ask": "needs an approval"}[e.InMode])
		}
		t.Rows = append(t.Rows, row)
		t.Names = append(t.Names, e.Name)
	}
	return t
}

// safe makes a server's name safe for a terminal.
func safe(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (c *catalogOptions) show() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show what the catalog knows about one capability, with its definitions",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				e, err := control.CatalogEntry(cmd.Context(), args[0], c.kind)
				if err != nil {
					return err
				}
				return c.Print(os.Stdout, entryTable(&e))
			})
		},
	}
	c.OutputFlag(cmd)
	return cmd
}

// entryTable shows one entry, one line for each fact.
func entryTable(e *admin.CatalogEntry) output.Table {
	t := output.Table{Header: []string{"WHAT", "VALUE"}, Data: e, Names: []string{e.Name}}
	add := func(what, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{what, value})
		}
	}
	add("name", safe(e.Name))
	add("id", e.ID)
	add("kind", e.Kind)
	add("server", e.Server)
	add("original", safe(e.Original))
	add("title", safe(e.DisplayName))
	add("category", e.Category)
	add("provider", e.Provider)
	add("source", e.Source)
	add("state", e.State)
	add("enabled", map[bool]string{true: onOff(e.Enabled), false: onOff(e.Enabled) + " (default)"}[e.Decided])
	add("class", ClassText(e))
	add("said", e.Said)
	add("risk", e.Risk)
	for _, why := range e.Flagged {
		add("flagged", why)
	}
	for _, tenant := range slices.Sorted(maps.Keys(e.Tenants)) {
		add("tenant "+tenant, onOff(e.Tenants[tenant]))
	}
	for _, persona := range e.DeniedPersonas {
		add("kept from", persona)
	}
	for _, persona := range e.AllowedPersonas {
		add("allowed to", persona)
	}
	add("changed by", strings.TrimSuffix(e.Actor+": "+e.Reason, ": "))
	add("first seen", e.FirstSeen.Format(time.RFC3339))
	add("version", safe(e.Version))
	add("accepted", e.Hash)
	add("held", e.HeldHash)
	add("config", string(e.Config))
	definition := e.Definition
	if definition == nil {
		definition = e.Held
	}
	for i, line := range strings.Split(strings.TrimSuffix(registry.Pretty(definition), "\n"), "\n") {
		t.Rows = append(t.Rows, []string{map[bool]string{true: "definition"}[i == 0], line})
	}
	return t
}

func (c *catalogOptions) history() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history NAME", Short: "Show the accepted definitions of one capability, the latest first",
		Long: `Show the accepted definitions of one capability, the latest first; at most 20 are kept.
toolgate catalog accept NAME --hash HASH goes back to an older one.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.CatalogHistory(cmd.Context(), args[0], c.kind)
				if err != nil {
					return err
				}
				t := output.Table{Header: []string{"HASH", "VERSION", "ACCEPTED", "BY", "NOW"}, Data: all, Empty: "no definition of it was ever accepted"}
				for i := range all {
					d := &all[i]
					by := strings.TrimSuffix(d.Actor+": "+d.Reason, ": ")
					t.Rows = append(t.Rows, []string{d.Hash, safe(d.Version), d.AcceptedAt.Format(time.RFC3339), by, map[bool]string{true: "accepted"}[d.Current]})
					t.Names = append(t.Names, d.Hash)
				}
				return c.Print(os.Stdout, t)
			})
		},
	}
	c.OutputFlag(cmd)
	return cmd
}

func (c *catalogOptions) diff() *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff NAME...", Short: "Compare held definitions with the accepted ones",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				for _, name := range args {
					e, err := control.CatalogEntry(cmd.Context(), name, c.kind)
					if err != nil {
						return err
					}
					if e.HeldHash == "" {
						output.Note("%s: nothing is held", e.Name)
						continue
					}
					printDiff(&e)
				}
				return nil
			})
		},
	}
	return cmd
}

// printDiff shows what would be accepted.
func printDiff(e *admin.CatalogEntry) {
	output.Say("%s  %s\n", safe(e.Name), e.HeldHash)
	for _, why := range e.Flagged {
		output.Say("flagged: %s\n", why)
	}
	output.Say("%s", e.Diff)
}

// changing returns a command that changes each capability in its arguments.
func (c *catalogOptions) changing(use, short string, change func(args []string) (names []string, change admin.CatalogChange, err error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, what, err := change(args)
			if err != nil {
				return err
			}
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				all := []admin.CatalogEntry{}
				for _, name := range names {
					what.Name = name
					e, err := c.apply(cmd.Context(), control, what)
					if err != nil {
						return err
					}
					all = append(all, e)
				}
				return c.Print(os.Stdout, catalogTable(all))
			})
		},
	}
	c.reasonFlag(cmd)
	c.OutputFlag(cmd)
	return cmd
}

func (c *catalogOptions) reasonFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.reason, "reason", "", "`why`; stored with the change")
}

// apply makes one change in the name of the user who runs the command.
func (c *catalogOptions) apply(ctx context.Context, control *admin.Client, what admin.CatalogChange) (admin.CatalogEntry, error) {
	what.Kind, what.Actor, what.Reason = c.kind, actor(), c.reason
	return control.ChangeCatalog(ctx, what)
}

// actor names the user who runs the command.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

func (c *catalogOptions) enable() *cobra.Command {
	return c.changing("enable NAME...", "Switch capabilities on for every tenant that has no flag", func(args []string) ([]string, admin.CatalogChange, error) {
		return args, admin.CatalogChange{Op: admin.CatalogEnable}, nil
	})
}

func (c *catalogOptions) disable() *cobra.Command {
	return c.changing("disable NAME...", "Switch capabilities off for every tenant that has no flag", func(args []string) ([]string, admin.CatalogChange, error) {
		return args, admin.CatalogChange{Op: admin.CatalogDisable}, nil
	})
}

func (c *catalogOptions) flag() *cobra.Command {
	var tenant string
	cmd := c.changing("flag NAME... on|off|clear", "Switch capabilities on or off for one tenant, over the catalog", func(args []string) ([]string, admin.CatalogChange, error) {
		last := len(args) - 1
		what := admin.CatalogChange{Op: admin.CatalogFlag, Tenant: tenant, On: args[last] == "on"}
		switch {
		case tenant == "":
			return nil, what, failure.Newf(failure.Usage, "for which tenant? add --tenant TENANT")
		case last < 1 || !slices.Contains([]string{"on", "off", "clear"}, args[last]):
			return nil, what, failure.Newf(failure.Usage, "write on, off or clear after the names, such as `toolgate catalog flag NAME off --tenant %s`", tenant)
		case args[last] == "clear":
			what.Op = admin.CatalogUnflag
		}
		return args[:last], what, nil
	})
	cmd.Flags().StringVar(&tenant, "tenant", "", "the `tenant`")
	return cmd
}

func (c *catalogOptions) restrict() *cobra.Command {
	var persona string
	var lift, allow bool
	cmd := c.changing("restrict NAME...", "Deny capabilities to a persona, or allow it these alone", func(args []string) ([]string, admin.CatalogChange, error) {
		if persona == "" {
			return nil, admin.CatalogChange{}, failure.Newf(failure.Usage, "to which persona? add --persona PERSONA")
		}
		op := admin.CatalogRestrict
		switch {
		case lift && allow:
			return nil, admin.CatalogChange{}, failure.Newf(failure.Usage, "--lift and --allow exclude each other")
		case lift:
			op = admin.CatalogUnrestrict
		case allow:
			op = admin.CatalogAllow
		}
		return args, admin.CatalogChange{Op: op, Persona: persona}, nil
	})
	cmd.Flags().StringVar(&persona, "persona", "", "the `persona`")
	cmd.Flags().BoolVar(&lift, "lift", false, "lift the restriction, or what is allowed, instead")
	cmd.Flags().BoolVar(&allow, "allow", false, "allow them instead: of their kind, the persona then has only what is allowed to it")
	return cmd
}

func (c *catalogOptions) class() *cobra.Command {
	var risk string
	var costly bool
	words := []string{registry.ClassReadOnly, registry.ClassWrite, registry.ClassDestructive, "unknown"}
	cmd := c.changing("class NAME... CLASS", "Class capabilities as read-only, write, destructive or unknown", func(args []string) ([]string, admin.CatalogChange, error) {
		last := len(args) - 1
		what := admin.CatalogChange{Op: admin.CatalogClassify, Class: args[last], Risk: risk, Costly: costly}
		switch {
		case last < 1 || !slices.Contains(words, args[last]):
			return nil, what, failure.Newf(failure.Usage, "write one of %s after the names", strings.Join(words, ", "))
		case risk != "" && !slices.Contains([]string{"low", "medium", "high"}, risk):
			return nil, what, failure.Newf(failure.Usage, "unknown --risk; write low, medium or high")
		case what.Class == "unknown":
			what.Class = ""
		}
		return args[:last], what, nil
	})
	cmd.Flags().StringVar(&risk, "risk", "", "`risk` of calling it: low, medium or high")
	cmd.Flags().BoolVar(&costly, "high-cost", false, "do not allow calls while memory or disk is short")
	return cmd
}

func (c *catalogOptions) accept() *cobra.Command {
	var all bool
	var server, hash string
	cmd := &cobra.Command{
		Use: "accept NAME...", Short: "Accept held definitions, so that they are served",
		Long: `Accept held definitions, so that they are served. The command prints each definition
and accepts exactly that: if the server changes it meanwhile, it stays held.

With the --hash of a definition that was accepted before (see toolgate catalog history),
that one is accepted again. What the server offers now is held, until the server offers
the older one or the newer one is accepted again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && !all && server == "":
				return failure.Newf(failure.Usage, "name what to accept, or add --server SERVER or --all; `toolgate catalog ls --state held` lists held definitions")
			case len(args) > 0 && (all || server != ""):
				return failure.Newf(failure.Usage, "write either names, or --all or --server")
			case hash != "" && len(args) != 1:
				return failure.Newf(failure.Usage, "--hash belongs to one definition; name only one")
			}
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				ctx := cmd.Context()
				if len(args) == 0 {
					waiting, err := control.Catalog(ctx, admin.CatalogQuery{Server: server, Kind: c.kind, State: store.StateHeld})
					if err != nil {
						return err
					}
					for i := range waiting {
						args = append(args, waiting[i].ID)
					}
				}
				return c.acceptEach(ctx, control, args, hash)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "accept everything that is held")
	cmd.Flags().StringVar(&server, "server", "", "accept everything held of this `server`")
	cmd.Flags().StringVar(&hash, "hash", "", "accept only the definition with this `hash`, as diff or history shows it")
	c.reasonFlag(cmd)
	c.OutputFlag(cmd)
	return cmd
}

// acceptEach accepts the held definition of each name, exactly as printed.
func (c *catalogOptions) acceptEach(ctx context.Context, control *admin.Client, names []string, hash string) error {
	accepted := []admin.CatalogEntry{}
	for _, name := range names {
		e, err := control.CatalogEntry(ctx, name, c.kind)
		if err != nil {
			return err
		}
		older := hash != "" && hash != e.HeldHash
		if e.HeldHash == "" && !older {
			return failure.Newf(failure.Usage, "%s: %w", e.Name, registry.ErrNotHeld)
		}
		if !older && (c.Output == "table" || c.Output == "wide") {
			printDiff(&e)
		}
		looked := e.HeldHash
		if hash != "" {
			looked = hash
		}
		done, err := c.apply(ctx, control, admin.CatalogChange{Op: admin.CatalogAccept, Name: e.ID, Hash: looked})
		if err != nil {
			return err
		}
		accepted = append(accepted, done)
	}
	return c.Print(os.Stdout, catalogTable(accepted))
}

func (c *catalogOptions) seed() *cobra.Command {
	cmd := &cobra.Command{
		Use: "seed FILE", Short: "Apply a seed file to the catalog, over earlier decisions",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return failure.Newf(failure.Config, "read the seed: %w", err)
			}
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				did, err := control.SeedCatalog(cmd.Context(), admin.CatalogSeed{File: args[0], Data: data, Actor: actor(), Reason: c.reason})
				if _, asked := errors.AsType[*admin.QuestionError](err); asked {
					return failure.New(failure.Config, err)
				} else if err != nil {
					return err
				}
				t := output.Table{Header: []string{"SEED", "APPLIED", "UNMATCHED"}, Data: did, Names: did.Unmatched}
				t.Rows = append(t.Rows, []string{args[0], strconv.Itoa(did.Applied), strconv.Itoa(len(did.Unmatched))})
				if err := c.Print(os.Stdout, t); err != nil {
					return err
				}
				if len(did.Unmatched) > 0 {
					return failure.Newf(failure.Config, "the catalog has nothing that matches %s", strings.Join(did.Unmatched, ", "))
				}
				return nil
			})
		},
	}
	c.reasonFlag(cmd)
	c.OutputFlag(cmd)
	return cmd
}

func (c *catalogOptions) orphans() *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use: "orphans", Short: "List what no server offers any more",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return c.WithControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.Catalog(ctx, admin.CatalogQuery{Kind: c.kind, State: store.StateOrphaned})
				if err != nil {
					return err
				}
				if forget {
					for i := range all {
						if _, err := c.apply(ctx, control, admin.CatalogChange{Op: admin.CatalogForget, Name: all[i].ID}); err != nil {
							return err
						}
					}
				}
				return c.Print(os.Stdout, catalogTable(all))
			})
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "remove them from the catalog; if they come back, they are new")
	c.reasonFlag(cmd)
	c.OutputFlag(cmd)
	return cmd
}
