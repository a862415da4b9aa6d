package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/version"
)

const (
	// auditLimit is how many entries are shown by default.
	auditLimit = 50
	// tailEvery is how often a followed log is read.
	tailEvery = 250 * time.Millisecond
)

func newAuditCommand(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Search the audit log, and verify that nobody changed it",
		Long: `Search the audit log of a configuration, and verify that nobody changed it. The
commands read the files as they are, even while a gateway writes them.

A query is a list of terms that must all hold. A term is a field, one of = != ~ !~ <
> <= >=, and a value, in double quotes if it has spaces. ~ means "contains". The
fields are ` + strings.Join(audit.QueryFields(), ", ") + `.`,
		Example: "  toolgate audit search 'decision=deny tool~github since=24h'\n  toolgate audit show m7f2k-1a\n  toolgate audit verify",
	}
	c.AddCommand(newAuditSearch(o), newAuditShow(o), newAuditTail(o), newAuditVerify(o), newAuditExport(o), newUsage(o))
	return c
}

// auditFiles returns the files of the audit log of a configuration.
func auditFiles(o *command.Options, ctx context.Context) (*config.Config, *statedir.Dir, []string, error) {
	c, err := o.LoadTarget(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	state, err := statedir.Find(c.Path)
	if err != nil {
		return nil, nil, nil, err
	}
	files, err := audit.Files(records.Path(c, state))
	if err == nil && len(files) == 0 {
		err = os.ErrNotExist
	}
	if errors.Is(err, os.ErrNotExist) {
		err = failure.New(failure.Unreachable, &noAuditError{c, state})
	}
	return c, state, files, err
}

// noAuditError says that there is no audit log at the path of a configuration.
type noAuditError struct {
	config *config.Config
	state  *statedir.Dir
}

// Error implements error.
func (e *noAuditError) Error() string {
	return fmt.Sprintf("there is no audit log at %s yet; a gateway with this configuration creates one", records.Path(e.config, e.state))
}

// parseQuery reads the arguments of a command as one query.
func parseQuery(args []string) (*audit.Query, error) {
	q, err := audit.ParseQuery(strings.Join(args, " "), time.Now())
	return q, failure.New(failure.Usage, err)
}

func newAuditSearch(o *command.Options) *cobra.Command {
	limit := auditLimit
	c := &cobra.Command{
		Use:   "search [QUERY]",
		Short: "List the entries that match a query, the latest last",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := parseQuery(args)
			if err != nil {
				return err
			}
			_, _, files, err := auditFiles(o, cmd.Context())
			if err != nil {
				return err
			}
			found, all := []audit.Record{}, 0
			err = told(audit.Read(files, func(r *audit.Record) error {
				if r.Event == audit.EventBegin || !q.Matches(r) {
					return nil
				}
				all++
				found = records.Latest(append(found, *r), limit)
				return nil
			}))
			if limit > 0 {
				found = found[max(0, len(found)-limit):]
			}
			if err != nil {
				return err
			}
			if err := o.Print(os.Stdout, auditTable(found)); err != nil {
				return err
			}
			if len(found) < all && (o.Output == "table" || o.Output == "wide") {
				output.Note("the last %d of %d entries; --limit 0 shows all", len(found), all)
			}
			return nil
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "show the last `n` entries; 0 for all")
	o.OutputFlag(c)
	return c
}

func auditTable(found []audit.Record) output.Table {
	t := output.Table{
		Header: []string{"TIME", "WHO", "CLIENT", "NAME", "DECISION", "OUTCOME", "PHASE", "RULE", "MS", "ID", "SERVER", "TENANT", "PERSONA", "CODE", "TRACE"},
		Empty:  "no calls were found; one of less than a second ago may not be there yet",
		Wide:   5, Data: found,
	}
	for i := range found {
		r := &found[i]
		by := r.Decider()
		t.Rows = append(t.Rows, []string{
			clock(r.Time), r.Principal.Subject, cmp.Or(r.Client.Name, "-"), cmp.Or(r.Name, "-"), r.Decision(), string(r.Outcome),
			cmp.Or(by.Phase, "-"), cmp.Or(shortened(by.Rule), "-"), milliseconds(r.DurationUS), cmp.Or(r.CallID, "-"), cmp.Or(r.Server, "-"),
			cmp.Or(r.Principal.Tenant, "-"), cmp.Or(r.Principal.Persona, "-"), cmp.Or(r.Code, "-"), cmp.Or(r.TraceID, "-"),
		})
		t.Names = append(t.Names, r.CallID)
	}
	return t
}

// clock writes a time of today as that, and any other with its date.
func clock(at time.Time) string {
	layout := time.DateTime
	if at = at.Local(); at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		layout = time.TimeOnly
	}
	return at.Format(layout)
}

// shortened cuts a text to fit into a column.
func shortened(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

func milliseconds(us int64) string { return fmt.Sprintf("%.1f", float64(us)/1000) }

func newAuditShow(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything recorded about a call: what each phase decided, and when",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, _, files, err := auditFiles(o, cmd.Context())
			if err != nil {
				return err
			}
			found := []audit.Record{}
			err = told(audit.Read(files, func(r *audit.Record) error {
				if r.CallID == args[0] {
					found = append(found, *r)
				}
				return nil
			}))
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return failure.Newf(failure.Usage, "the audit log has no call %q; `toolgate audit search` lists the calls, with -o name only their ids", args[0])
			}
			return o.Print(os.Stdout, callTable(found))
		},
	}
	o.OutputFlag(c)
	return c
}

// callTable shows the lines of one call in their order.
func callTable(found []audit.Record) output.Table {
	t := output.Table{Header: []string{"WHAT", "VALUE"}, Data: found, Names: []string{found[0].CallID}}
	row := func(what, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{what, value})
		}
	}
	r := &found[len(found)-1]
	row("id", r.CallID)
	row("begun", map[bool]string{true: found[0].Time.Local().Format(time.RFC3339Nano)}[found[0].Event == audit.EventBegin])
	row("ended", map[bool]string{true: r.Time.Local().Format(time.RFC3339Nano)}[r.Event != audit.EventBegin])
	row("who", r.Principal.Subject+" of "+r.Principal.Tenant+" (by "+r.Principal.Issuer+")")
	row("persona", r.Principal.Persona)
	row("groups", strings.Join(r.Principal.Groups, ", "))
	row("plan", r.Principal.Plan)
	row("client", strings.TrimSpace(r.Client.Name+" "+r.Client.Version))
	row("session", r.Session)
	row("spoken", strings.TrimSpace(r.Transport+" "+r.Era+" "+r.ProtocolVersion))
	row("method", r.Method)
	row(r.Kind, r.Name)
	row("at", strings.TrimSpace(r.Server+" "+r.OriginalName))
	row("capability", r.CapabilityID)
	row("arguments", r.ArgsHash)
	for _, f := range r.Fields {
		row("  "+f.Pointer, f.Value)
	}
	for _, s := range r.Steps {
		row(fmt.Sprintf("phase %s", s.Phase), strings.TrimSpace(fmt.Sprintf("%s after %s ms  %s  %s", s.Verdict, milliseconds(s.US), s.Rule, s.Revision)))
	}
	for _, b := range r.Budgets {
		row("budget "+b.Name, fmt.Sprintf("%d %s of %s, %d of %d used", b.Amount, b.Unit, b.Key, b.Used, b.Limit))
	}
	row("breaker", r.Breaker)
	row("outcome", strings.TrimSpace(string(r.Outcome)+" "+r.Code))
	row("reason", r.Reason)
	row("took", milliseconds(r.DurationUS)+" ms, "+milliseconds(r.UpstreamUS)+" of that upstream")
	row("bytes", fmt.Sprintf("%d in, %d out", r.BytesIn, r.BytesOut))
	row("trace", r.TraceID)
	for i := range found {
		row("line", fmt.Sprintf("%d of %s, %s", found[i].Seq, found[i].File, found[i].Event))
	}
	return t
}

func newAuditTail(o *command.Options) *cobra.Command {
	n, follow := 10, false
	c := &cobra.Command{
		Use:   "tail [QUERY]",
		Short: "Show the last entries, and with -f those that follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := parseQuery(args)
			if err != nil {
				return err
			}
			if n < 0 {
				return failure.Newf(failure.Usage, "-n %d is not a number of entries; write 0 or more", n)
			}
			cfg, state, _, err := auditFiles(o, cmd.Context())
			if err != nil {
				return err
			}
			last, keep := []audit.Record{}, max(1, n)
			var log audit.Follower
			read := func() error {
				return told(log.Read(records.Path(cfg, state), func(r *audit.Record) error {
					if r.Event == audit.EventBegin || !q.Matches(r) {
						return nil
					}
					last = records.Latest(append(last, *r), keep)
					return nil
				}))
			}
			if err := read(); err != nil {
				return err
			}
			last, keep = last[max(0, len(last)-n):], 0
			if err := o.Print(os.Stdout, auditTable(last)); err != nil || !follow {
				return err
			}
			last = last[:0]
			return followAudit(cmd.Context(), read, func() error {
				defer func() { last = last[:0] }()
				return printMore(o, auditTable(last))
			})
		},
	}
	c.Flags().IntVarP(&n, "lines", "n", n, "start with the last `n` entries")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "show new entries until interrupted")
	o.OutputFlag(c)
	return c
}

// followAudit shows new entries of the files of a log until ctx ends.
func followAudit(ctx context.Context, read, show func() error) error {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := errors.Join(read(), show()); err != nil {
			return err
		}
	}
}

// told warns about lines that cannot be read, and returns any other error. Readable lines
// are shown all the same.
func told(err error) error {
	if unreadable, ok := errors.AsType[*audit.UnreadableError](err); ok {
		output.Warn("%v", unreadable)
		return nil
	}
	return err
}

// printMore prints the rows of a table without its header.
func printMore(o *command.Options, t output.Table) error {
	if len(t.Rows) == 0 {
		return nil
	}
	if o.Output == "table" || o.Output == "wide" {
		t.Header = make([]string, len(t.Header))
		for _, row := range t.Rows {
			columns := len(row)
			if o.Output != "wide" {
				columns -= t.Wide
			}
			if _, err := fmt.Println(output.Printable(strings.Join(row[:columns], "  "))); err != nil {
				return err
			}
		}
		return nil
	}
	return o.Print(os.Stdout, t)
}

func newAuditVerify(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "verify",
		Short: "Find what was changed, removed, inserted or truncated in the audit log",
		Long: `Check every line of the audit log, in all its files: its MAC, its link to the line
before it, and the end of each run of the gateway against the anchor in the store.
The last 10 seconds of a running gateway are not anchored yet; truncation there goes
unnoticed. The exit code is 1 if something was found, or if the store knows of a log
whose files are all gone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, state, _, err := auditFiles(o, cmd.Context())
			none, isNone := errors.AsType[*noAuditError](err)
			if err != nil && !isNone {
				return err
			}
			report, bad := verifyAudit(cmd.Context(), c, state)
			switch {
			case isNone && (bad != nil || report.Anchors == 0): // the store knows of no log either
				return failure.New(failure.Unreachable, none)
			case bad != nil:
				return bad
			}
			if err := o.Print(os.Stdout, verifyTable(report)); err != nil {
				return err
			}
			if n := len(report.Findings); n > 0 {
				return failure.Newf(failure.Usage, "the audit log is not as the gateway wrote it: %d findings", n)
			}
			return nil
		},
	}
	o.OutputFlag(c)
	return c
}

// verifyAudit verifies the audit log of a configuration. It opens the store first:
// without a store, it creates nothing in the state folder.
func verifyAudit(ctx context.Context, c *config.Config, state *statedir.Dir) (*audit.Report, error) {
	reading, err := statedir.StoreForReading(c)
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, statedir.ReadTime)
	defer cancel()
	s, err := store.Open(opening, reading)
	if err != nil {
		return nil, failure.New(failure.Unreachable, fmt.Errorf("read the anchors of the audit log: %w", err))
	}
	defer s.Close()
	keys, err := records.Keys(c, state)
	if err != nil {
		return nil, err
	}
	replica, err := state.Replica()
	if err != nil {
		return nil, err
	}
	report, err := records.VerifyAnchored(ctx, s.Anchors(), records.Path(c, state), keys, replica)
	return report, failure.New(failure.Unreachable, err)
}

func verifyTable(r *audit.Report) output.Table {
	verdict := "verified"
	if len(r.Findings) > 0 {
		verdict = "CHANGED"
	}
	t := output.Table{Header: []string{"AUDIT LOG", verdict}, Data: r, Names: []string{verdict}, Rows: [][]string{
		{"files", fmt.Sprint(r.Files)},
		{"lines", fmt.Sprint(r.Lines)},
		{"calls", fmt.Sprint(r.Calls)},
		{"open", fmt.Sprint(r.Open)},
		{"given up", fmt.Sprint(r.Lost)},
		{"anchors", fmt.Sprint(r.Anchors)},
		{"head", fmt.Sprintf("%d %s", r.Last, r.Head)},
	}}
	for _, f := range r.Findings {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%s:%d", cmp.Or(f.File, "-"), f.Line), fmt.Sprintf("line %d: %s", f.Seq, f.Text)})
	}
	return t
}

func newAuditExport(o *command.Options) *cobra.Command {
	format := "jsonl"
	c := &cobra.Command{
		Use:   "export [QUERY]",
		Short: "Write the entries that match a query as JSON lines, CSV or OCSF",
		Long: `Write the entries that match a query to standard output: as the JSON lines of the log,
as CSV, or as events of the class API Activity (6003) of the Open Cybersecurity
Schema Framework, one JSON object per line. The lines that begin calls are left out
unless the query names an event.`,
		Example: "  toolgate audit export --format csv since=7d > week.csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := parseQuery(args)
			if err != nil {
				return err
			}
			write, end, err := audit.NewExporter(os.Stdout, format, version.Version)
			if err != nil {
				return failure.New(failure.Usage, err)
			}
			_, _, files, err := auditFiles(o, cmd.Context())
			if err != nil {
				return err
			}
			begins := strings.Contains(strings.Join(args, " "), "event")
			err = told(audit.Read(files, func(r *audit.Record) error {
				if r.Event == audit.EventBegin && !begins || !q.Matches(r) {
					return nil
				}
				return write(r)
			}))
			return errors.Join(err, end())
		},
	}
	c.Flags().StringVar(&format, "format", format, "jsonl, csv or ocsf")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(audit.Formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}
