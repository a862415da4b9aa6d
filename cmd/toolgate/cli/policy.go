package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/replay"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy"
)

func newPolicyCommand(o *command.Options) *cobra.Command {
	var version string
	c := &cobra.Command{Use: "policy", Short: "Work with Rego policies"}
	c.PersistentFlags().StringVar(&version, "rego", "v1", "`version` of the language: v0 or v1")
	test := &cobra.Command{
		Use:     "test FOLDER",
		Short:   "Run the test_ rules of *_test.rego with the functions that a policy may use here",
		Example: "  toolgate policy test policies/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := opa.RunTests(cmd.Context(), args[0], opa.RegoVersion(version))
			if err != nil {
				return failure.New(failure.Config, err)
			}
			return printTests(o, results)
		},
	}
	o.OutputFlag(test)
	check := &cobra.Command{
		Use:   "check FOLDER...",
		Short: "Compile policies and report everything that is wrong with them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			problems := opa.Check(opa.RegoVersion(version), args...)
			for _, p := range problems {
				if p.File != "" {
					output.Say("%s:%d: ", p.File, p.Line)
				}
				output.Say("%s\n", p.Text)
			}
			if len(problems) > 0 {
				return failure.Newf(failure.Config, "the policies have %s", screen.Count(len(problems), "problem"))
			}
			return nil
		},
	}
	c.AddCommand(test, check, newPolicyReplay(o))
	return c
}

// testedRule is one result as -o json shows it.
type testedRule struct {
	Name    string  `json:"name"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Result  string  `json:"result"`
	Error   string  `json:"error,omitempty"`
	Output  string  `json:"output,omitempty"`
	Seconds float64 `json:"seconds"`
}

// printTests shows results; one that did not pass is an error.
func printTests(o *command.Options, results []opa.TestResult) error {
	t := output.Table{Header: []string{"RESULT", "TEST", "PLACE", "SAYS"}}
	shown := []testedRule{}
	failed := 0
	for _, r := range results {
		row := testedRule{Name: r.Name, File: r.File, Line: r.Line, Result: "pass", Output: r.Output, Seconds: r.Took.Round(time.Microsecond).Seconds()}
		switch {
		case r.Skip:
			row.Result = "skipped"
		case r.Err != nil:
			row.Result, row.Error = "error", r.Err.Error()
		case !r.Pass:
			row.Result = "fail"
		}
		if row.Result == "fail" || row.Result == "error" {
			failed++
		}
		shown = append(shown, row)
		t.Rows = append(t.Rows, []string{row.Result, row.Name, fmt.Sprintf("%s:%d", row.File, row.Line), output.FirstLine(row.Error+row.Output, 80)})
		t.Names = append(t.Names, row.Name)
	}
	t.Data = shown
	if err := o.Print(os.Stdout, t); err != nil {
		return err
	}
	if failed > 0 {
		return failure.Newf(failure.Config, "%d of %d tests did not pass", failed, len(results))
	}
	return nil
}

// replayed is the result of replaying the calls of an audit log.
type replayed struct {
	Changed     []replayedCall `json:"changed"`
	Same        int            `json:"same"`
	Undecidable int            `json:"undecidable"` // the log lacks what the policy reads, or the policy failed then and now
	NotAsked    int            `json:"not_asked"`   // something before the policy refused them, or there was no policy
	// Results are those that interceptors would see. What they would say of them is not
	// known, because the log has no results.
	Results int `json:"results_unknown"`
}

type replayedCall struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Tenant string    `json:"tenant"`
	Tool   string    `json:"tool"`
	Was    string    `json:"was"`
	Now    string    `json:"now"`
	Reason string    `json:"reason"`
}

func newPolicyReplay(o *command.Options) *cobra.Command {
	since, intercepted, running := admin.ReplaySince, false, false
	c := &cobra.Command{
		Use:   "replay [FOLDER]",
		Short: "Replay the calls of the audit log with another policy",
		Long: `Decide the tool calls of the audit log again with the policies of a folder, and print
those whose decision would change. Nothing is called and nothing is changed. A policy
that reads arguments can decide only what it refuses without them, unless
audit.decision_inputs recorded them. A policy that reads scopes, capsules or the clock
can decide nothing. What the catalog says about tools besides their names is not in
the audit log and is not replayed. toolgate audit verify tells whether the log is
intact.

With --gateway the running gateway decides, as the view Access of the console has it do:
with the catalog and the data of its own policy, so that of the folder only the
policies count. It decides the last 10000 calls, in a process that has 10 seconds and
reaches nothing.

With --interceptors the command asks the interceptors of the file instead, about the
arguments of the calls as they were delivered, where audit.decision_inputs recorded them.
It sends them the calls of the past with their ids. Plugins and servers that host
interceptors are started for this command alone, confined as the gateway confines them, and
end with it. For an interceptor in audit mode the command prints what it would have done,
such as "would deny". A call is unknown if an interceptor fails, if one has changed the
arguments before, or if it was made by a capsule, which is not in the audit log. The audit
log has no results: the command counts those that interceptors would have seen.`,
		Example: "  toolgate policy replay policies-new/ --since 168h\n  toolgate policy replay policies-new/ --gateway\n  toolgate policy replay --interceptors",
		Args: func(_ *cobra.Command, args []string) error {
			if intercepted == (len(args) == 0) && len(args) < 2 && !(intercepted && running) {
				return nil
			}
			return failure.New(failure.Usage, errors.New("write either the folder of a policy or --interceptors; --gateway goes with a folder"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if running {
				return replayAtGateway(cmd.Context(), o, args[0], since)
			}
			c, state, files, err := auditFiles(o, cmd.Context())
			if err != nil {
				return err
			}
			log := replayedLog{files: files, since: time.Now().Add(-since)}
			keys, err := state.Keyring(c.Toolgate.Keys)
			if err != nil {
				return failure.New(failure.Config, err)
			}
			if intercepted {
				got, err := replayInterceptors(cmd.Context(), c, state, keys, log)
				if err != nil {
					return err
				}
				return printReplay(o, got, len(got.Changed))
			}
			next := *c
			set := &next.Toolgate.OPA
			set.Path, set.Bundle, set.BundleKey, set.URL = args[0], "", "", ""
			set.Mode = opa.Enforce
			policy, err := build.NewPolicy(cmd.Context(), &next, build.Surroundings{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return failure.New(failure.Config, err)
			}
			names, err := log.names()
			if err != nil {
				return err
			}
			if err := policy.SetData(build.PolicyData(names, nil)); err != nil {
				return failure.New(failure.Config, fmt.Errorf("the policy does not accept the names of the tools: %w", err))
			}
			got, err := log.replay(cmd.Context(), policy, keys)
			if err != nil {
				return err
			}
			return printReplay(o, got, len(got.Changed))
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how far back to replay, as a `time`")
	c.Flags().BoolVar(&running, "gateway", false, "have the running gateway decide")
	c.Flags().BoolVar(&intercepted, "interceptors", false, "ask the interceptors of the file instead of a policy")
	o.OutputFlag(c)
	return c
}

// replayAtGateway has the running gateway decide with the policies of a folder.
func replayAtGateway(ctx context.Context, o *command.Options, folder string, since time.Duration) error {
	files, err := opa.ReadFiles(folder)
	if err != nil {
		return failure.New(failure.Config, err)
	}
	q := admin.PolicyReplay{Since: time.Now().Add(-since)}
	for _, f := range files {
		if f.IsModule() {
			q.Files = append(q.Files, admin.PolicyFile{Name: f.Name, Text: string(f.Data)})
		}
	}
	return o.WithGateway(ctx, func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
		var by admin.PolicyReplayer = control
		if own != nil {
			by = own.Control()
		}
		found, err := by.ReplayPolicy(ctx, q)
		switch {
		case err != nil && control != nil:
			return command.ControlError(err)
		case err != nil:
			return err
		}
		if len(found.Problems) > 0 {
			return failure.New(failure.Config, policyProblems(folder, found.Problems))
		}
		if found.LeftOut > 0 {
			output.Note("the first %s of this time are left out, because there are too many", screen.Count(found.LeftOut, "call"))
		}
		if found.Unreadable != "" {
			output.Warn("%s", found.Unreadable)
		}
		got := replayed{Changed: []replayedCall{}, Same: found.Same, Undecidable: found.Undecidable, NotAsked: found.NotAsked}
		for _, c := range slices.Backward(found.Changed) {
			got.Changed = append(got.Changed, replayedCall(c))
		}
		differ := 0
		for _, c := range found.Counts {
			differ += c.Calls
		}
		if more := differ - len(got.Changed); more > 0 {
			output.Note("%s more would be decided otherwise, before those that are listed", screen.Count(more, "call"))
		}
		return printReplay(o, got, differ)
	})
}

// policyProblems is all that is wrong with the policies of a folder.
func policyProblems(folder string, problems []admin.PolicyProblem) error {
	var all []error
	for _, p := range problems {
		switch {
		case p.Line > 0:
			all = append(all, fmt.Errorf("%s:%d: %s", filepath.Join(folder, p.File), p.Line, p.Text))
		case p.File != "":
			all = append(all, fmt.Errorf("%s: %s", filepath.Join(folder, p.File), p.Text))
		default:
			all = append(all, errors.New(p.Text))
		}
	}
	return errors.Join(all...)
}

// printReplay shows what changes. differ is how many decisions do, of which some may not be
// listed.
func printReplay(o *command.Options, got replayed, differ int) error {
	if err := o.Print(os.Stdout, replayTable(got)); err != nil {
		return err
	}
	if o.Output == "table" || o.Output == "wide" {
		output.Note("%d decisions change, %d do not, %d are unknown, %d were not asked about",
			differ, got.Same, got.Undecidable, got.NotAsked)
		if got.Results > 0 {
			output.Note("interceptors would also see %d results, which the audit log does not have: what they would say of these is unknown", got.Results)
		}
	}
	return nil
}

// replayedLog is the part of an audit log to replay. It is read again for each question,
// because a day of a busy gateway does not fit into memory.
type replayedLog struct {
	files []string
	since time.Time
}

// each calls fn with every ended call of a tool.
func (l replayedLog) each(fn func(*audit.Record) error) error {
	return audit.Read(l.files, func(r *audit.Record) error {
		if !replay.IsCall(r) || r.Time.Before(l.since) {
			return nil
		}
		return fn(r)
	})
}

// names returns the names of the tools that were called.
func (l replayedLog) names() (names []string, err error) {
	seen := make(map[string]bool)
	err = l.each(func(r *audit.Record) error {
		if !seen[r.Name] {
			seen[r.Name] = true
			names = append(names, r.Name)
		}
		return nil
	})
	if _, bad := errors.AsType[*audit.UnreadableError](err); bad {
		return names, nil // replay reports it once
	}
	return names, err
}

// replay decides the calls again.
func (l replayedLog) replay(ctx context.Context, policy *opa.Phase, keys *seal.Keyring) (replayed, error) {
	got := replayed{Changed: []replayedCall{}}
	decider := replay.NewDecider(policy)
	err := l.each(func(r *audit.Record) error {
		was := replay.Was(r)
		if was == "" {
			got.NotAsked++
			return nil
		}
		asked := replay.Asked(r)
		v := decider.Decide(ctx, &asked, func() ([]byte, error) { return proxy.OpenInputs(keys, r.CallID, r.Inputs) })
		if ctx.Err() != nil { // then the policy failed because of that
			return context.Cause(ctx)
		}
		switch v.Compare(was) {
		case replay.Unknown:
			got.Undecidable++
		case replay.Same:
			got.Same++
		case replay.Changed:
			got.Changed = append(got.Changed, replayedCall{
				ID: r.CallID, Time: r.Time, Who: r.Principal.Subject, Tenant: r.Principal.Tenant, Tool: r.Name, Was: was, Now: v.Now, Reason: v.Reason,
			})
		}
		return nil
	})
	return got, told(err)
}

func replayTable(got replayed) output.Table {
	t := output.Table{Header: []string{"TIME", "WHO", "TENANT", "TOOL", "WAS", "NOW", "REASON", "ID"}, Data: got}
	for _, c := range got.Changed {
		t.Rows = append(t.Rows, []string{
			c.Time.Local().Format(time.DateTime), c.Who, c.Tenant, c.Tool, c.Was, c.Now, cmp.Or(shortened(c.Reason), "-"), c.ID,
		})
		t.Names = append(t.Names, c.ID)
	}
	return t
}
