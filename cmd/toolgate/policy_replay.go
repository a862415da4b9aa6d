package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
)

// replayed is what came of deciding the calls of an audit log again.
type replayed struct {
	Changed     []replayedCall `json:"changed"`
	Same        int            `json:"same"`
	Undecidable int            `json:"undecidable"` // the policy reads arguments, which were not kept
	NotAsked    int            `json:"not_asked"`   // something before the policy refused them, or there was none
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

func newPolicyReplay(o *options) *cobra.Command {
	since, path := 24*time.Hour, ""
	c := &cobra.Command{
		Use:   "replay FOLDER",
		Short: "Decide the calls of the audit log again under another policy",
		Long: `Decide the tool calls of the audit log again under the policies of a folder, and
print those that the policy would now decide otherwise. Nothing is called and nothing
is changed. A policy that reads arguments can decide only what it refuses without
them, unless audit.decision_inputs kept them. Scopes, capsules and what the catalog
says of tools beside their names are not in the audit log and not replayed.`,
		Example: "  toolgate policy replay policies-new/ --since 168h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, state, files, err := o.auditFiles(path)
			if err != nil {
				return err
			}
			next := *c
			next.Toolgate.OPA.Path, next.Toolgate.OPA.Bundle, next.Toolgate.OPA.URL = args[0], "", ""
			next.Toolgate.OPA.Mode = string(opa.Enforce)
			policy, err := newPolicy(cmd.Context(), &next, surroundings{log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return exit(exitConfig, err)
			}
			keys, err := state.keyring(c.Toolgate.Keys)
			if err != nil {
				return exit(exitConfig, err)
			}
			calls, names, err := callsSince(files, time.Now().Add(-since))
			if err != nil {
				return err
			}
			if err := policy.SetData(policyData(names, nil)); err != nil {
				return exit(exitConfig, fmt.Errorf("the policy does not take the names of the tools: %w", err))
			}
			got := replay(cmd.Context(), policy, keys, calls)
			if err := o.print(os.Stdout, replayTable(got)); err != nil {
				return err
			}
			if o.output == "table" || o.output == "wide" {
				fmt.Fprintf(os.Stderr, "%d decisions change, %d do not, %d cannot be decided without arguments, %d did not reach the policy\n",
					len(got.Changed), got.Same, got.Undecidable, got.NotAsked)
			}
			return nil
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how long ago the `time` begins that is decided again")
	c.Flags().StringVar(&path, "file", "", "configuration `file`, like the argument of up")
	o.outputFlag(c)
	return c
}

// callsSince returns the ended calls of tools since a time, and the names of the
// tools.
func callsSince(files []string, since time.Time) (calls []audit.Record, names []string, err error) {
	seen := make(map[string]bool)
	err = told(audit.Read(files, func(r *audit.Record) error {
		if r.Event != audit.EventEnd || r.Method != mcp.MethodToolsCall || r.Server == "" || r.Time.Before(since) {
			return nil
		}
		calls = append(calls, *r)
		if !seen[r.Name] {
			seen[r.Name] = true
			names = append(names, r.Name)
		}
		return nil
	}))
	return calls, names, err
}

// replay decides calls again.
func replay(ctx context.Context, policy *opa.Phase, keys *proxy.Keyring, calls []audit.Record) replayed {
	got := replayed{Changed: []replayedCall{}}
	for i := range calls {
		r := &calls[i]
		was := policyVerdict(r, policy.Name())
		if was == "" {
			got.NotAsked++
			continue
		}
		d, decided := decideAnew(ctx, policy, keys, r)
		switch now := verdictOf(d); {
		case !decided:
			got.Undecidable++
		case now == was:
			got.Same++
		default:
			got.Changed = append(got.Changed, replayedCall{
				ID: r.CallID, Time: r.Time, Who: r.Principal.Subject, Tenant: r.Principal.Tenant, Tool: r.Name, Was: was, Now: now, Reason: d.Reason,
			})
		}
	}
	return got
}

// policyVerdict is what the policy said of a call; empty where it was not asked.
func policyVerdict(r *audit.Record, phase string) string {
	for _, s := range r.Steps {
		if s.Phase == "view/"+phase || s.Phase == phase {
			return s.Verdict
		}
	}
	return ""
}

func verdictOf(d gate.Decision) string {
	if d.Err != nil {
		return "error"
	}
	return d.Effect.String()
}

// decideAnew asks a policy about a call of the audit log; decided is false where it
// reads arguments that were not kept.
func decideAnew(ctx context.Context, policy *opa.Phase, keys *proxy.Keyring, r *audit.Record) (d gate.Decision, decided bool) {
	who := r.Principal
	question := gate.Request{
		Kind: mcp.Tool, Server: r.Server, Original: r.OriginalName, Exposed: r.Name, CapabilityID: r.CapabilityID,
		Identity: gate.NewIdentity(gate.Identity{
			Principal: gate.Principal{Issuer: who.Issuer, Tenant: who.Tenant, Subject: who.Subject},
			Persona:   who.Persona, Groups: who.Groups, Plan: who.Plan,
		}),
	}
	for _, action := range []gate.Action{gate.View, gate.Call} {
		question.Action = action
		if action == gate.Call && policy.ReadsArguments() {
			args, err := keys.OpenInputs(r.CallID, r.Inputs)
			if err != nil {
				return d, false
			}
			question.Args = args
		}
		var err error
		if d, err = policy.Check(ctx, &question); err != nil && d.Err == nil {
			d.Err = err
		}
		if d.Err != nil || d.Effect == gate.Deny {
			break
		}
	}
	return d, true
}

func replayTable(got replayed) table {
	t := table{header: []string{"TIME", "WHO", "TENANT", "TOOL", "WAS", "NOW", "REASON", "ID"}, data: got}
	for _, c := range got.Changed {
		t.rows = append(t.rows, []string{
			c.Time.Local().Format(time.DateTime), c.Who, c.Tenant, c.Tool, c.Was, c.Now, orDash(shortened(c.Reason)), c.ID,
		})
		t.names = append(t.names, c.ID)
	}
	return t
}
