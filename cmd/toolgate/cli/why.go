package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newWhy(o *command.Options) *cobra.Command {
	var q admin.WhyQuestion
	var who callerFlags
	var object string
	var everyone bool
	c := &cobra.Command{
		Use:   "why NAME [NAME=VALUE ...]",
		Short: "Explain whether a tool, prompt or resource can be seen and called",
		Long: `Explain, step by step, whether a caller may see and call a tool, prompt or resource at
this moment. The steps are the gate, the operating mode and the rules of governance,
whether the call needs an approval, rate limits and budgets. The explanation has the
rules that decided with their file and line, and for a refusal a change that would
lift it. Rules about arguments count if you give arguments, as for call. No server
and no person is asked, and nothing is counted or charged.

The caller is the owner of an API key, or somebody whose token has the claims that
the flags give. With --everyone the command lists all known callers: the owners of API
keys, and somebody whose token has the claims that the flags give. asks means that a
call needs an approval first.`,
		Example: "  toolgate why gh__delete_repo --as ci\n  toolgate why gh__delete_repo --everyone\n  toolgate why gh__delete_repo repo=toolgate --as alice --tenant acme --groups dev,ops",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everyone {
				return whoCan(o, cmd, args, &who)
			}
			q.Name = args[0]
			pairs, err := arguments.Pairs(cmd.Context(), args[1:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			q.As, q.Assumed = who.caller(cmd)
			return o.WithGateway(cmd.Context(), func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
				if q.Args, err = questionArguments(ctx, o, control, own, q.Name, pairs, object); err != nil {
					return err
				}
				var e admin.Explainer = control
				if own != nil {
					e = own.Control()
				}
				why, err := e.Why(ctx, q)
				switch {
				case err != nil && control != nil:
					return command.ControlError(err)
				case err != nil:
					return err
				}
				if why.Assumed {
					noteAssumed(why.Caller)
				}
				if command.Talks(o) {
					output.Paragraph(os.Stdout, inOneSentence(&why))
				}
				return o.Print(os.Stdout, whyTable(&why, o.Output == "wide"))
			})
		},
	}
	who.add(c)
	c.Flags().BoolVar(&everyone, "everyone", false, "list which known callers may see and call it, for any arguments")
	c.Flags().StringVar(&object, "json", "", "arguments of the call as a JSON `object`")
	c.Flags().StringVar(&q.Capsule, "capsule", "", "the endpoint of a `capsule` instead of the main one")
	o.OutputFlag(c)
	return c
}

// questionArguments returns the arguments of a call that is asked about, as the call would
// send them; nil if none are given. A tool that the command's own caller does not see is
// taken for one whose schema is not known.
func questionArguments(ctx context.Context, o *command.Options, control *admin.Client, own *daemon.Daemon, name string, pairs []arguments.Pair, object string) ([]byte, error) {
	if len(pairs) == 0 && object == "" {
		return nil, nil
	}
	var tool []byte
	if client, end, err := openClient(ctx, o, control, own); err == nil {
		tool = listed(ctx, client, name)
		end()
	}
	params, err := callParams(name, tool, pairs, object)
	if err != nil {
		return nil, err
	}
	return mcp.Lookup(params, "arguments"), nil
}

// newWhoCan is how `toolgate why --everyone` can be typed, too.
func newWhoCan(o *command.Options) *cobra.Command {
	var flags callerFlags
	c := &cobra.Command{
		Use:    "who-can NAME",
		Short:  "List which known callers may see and call a tool, prompt or resource; see toolgate why --everyone",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return whoCan(o, cmd, args, &flags) },
	}
	flags.add(c)
	o.OutputFlag(c)
	return c
}

// whoCan lists who may see and call what the only argument names.
func whoCan(o *command.Options, cmd *cobra.Command, args []string, flags *callerFlags) error {
	if len(args) > 1 {
		return failure.Newf(failure.Usage, "--everyone is for any arguments; leave out %s", args[1])
	}
	return withExplainer(o, cmd.Context(), func(ctx context.Context, e admin.Explainer) error {
		who, err := e.WhoCan(ctx, args[0], flags.besides(cmd))
		if err != nil {
			return err
		}
		t := output.Table{Header: []string{"CALLER", "SEES", "CALLS", "REASON"}, Data: who}
		for _, w := range who {
			if w.Assumed {
				noteAssumed(w.Caller)
			}
			calls := yesNo(w.Call)
			if w.Asks {
				calls = "asks"
			}
			t.Rows = append(t.Rows, []string{w.Caller, yesNo(w.View), calls, w.Reason})
			t.Names = append(t.Names, w.Caller)
		}
		return o.Print(os.Stdout, t)
	})
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// withExplainer calls use with the running gateway, or with one that is started for this
// command.
func withExplainer(o *command.Options, ctx context.Context, use func(context.Context, admin.Explainer) error) error {
	return o.WithGateway(ctx, func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
		if own != nil {
			return use(ctx, own.Control())
		}
		if err := use(ctx, control); err != nil {
			return command.ControlError(err)
		}
		return nil
	})
}

// inOneSentence says what the caller may do, before the steps that lead to it.
func inOneSentence(w *admin.Why) string {
	reason := func(v *admin.WhyVerdict) string {
		if v.Reason == "" {
			return ""
		}
		return ": " + strings.TrimPrefix(v.Reason, "This call is not allowed: ")
	}
	switch {
	case w.View.Effect != "allow":
		return fmt.Sprintf("%s does not see %s%s", w.Caller, w.Name, reason(&w.View))
	case w.Call.Effect == "allow":
		return fmt.Sprintf("%s sees %s and may call it", w.Caller, w.Name)
	case w.Call.Effect == "ask":
		return fmt.Sprintf("%s sees %s and may call it once somebody has approved the call%s", w.Caller, w.Name, reason(&w.Call))
	}
	return fmt.Sprintf("%s sees %s and may not call it%s", w.Caller, w.Name, reason(&w.Call))
}

// whyTable shows an explanation: a row per phase and action. Phases in a row that say
// nothing about what is allowed have one row together, unless each of them is wanted.
func whyTable(w *admin.Why, each bool) output.Table {
	t := output.Table{Header: []string{"ACTION", "PHASE", "SAYS", "REASON", "RULE", "CHANGE"}, Data: w}
	for _, action := range []struct {
		name    string
		verdict *admin.WhyVerdict
	}{{"see", &w.View}, {"call", &w.Call}} {
		steps := action.verdict.Steps
		for len(steps) > 0 {
			if silent := silentSteps(steps); !each && action.verdict.Effect == "allow" && silent > 1 {
				t.Rows = append(t.Rows, []string{action.name, fmt.Sprintf("%d others", silent), "abstain", "-o wide shows them", "", ""})
				steps = steps[silent:]
				continue
			}
			s := &steps[0]
			steps = steps[1:]
			rule := strings.Join(s.Rules, "; ")
			if s.Question != "" {
				rule = s.Question
			}
			t.Rows = append(t.Rows, []string{action.name, s.Phase, s.Effect, joined(s.Reason, s.Error), rule, s.Change})
		}
		t.Rows = append(t.Rows, []string{action.name, "-", action.verdict.Effect, action.verdict.Reason, "", ""})
		t.Names = append(t.Names, action.name+" "+action.verdict.Effect)
	}
	return t
}

// silentSteps counts the phases at the beginning that abstain and ask for nothing. The row of
// interceptors tells which ones a call meets.
func silentSteps(steps []admin.WhyStep) int {
	for i := range steps {
		if s := &steps[i]; s.Effect != "abstain" || s.Phase == "interceptors" || s.Question != "" || s.Error != "" || s.Change != "" {
			return i
		}
	}
	return len(steps)
}

// joined joins the texts that are not empty.
func joined(reason, problem string) string {
	if reason == "" || problem == "" {
		return reason + problem
	}
	return reason + ": " + problem
}
