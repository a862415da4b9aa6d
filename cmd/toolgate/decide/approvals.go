package decide

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

func NewApprovals(o *command.Options) *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Answer calls that wait for the approval of a person",
		Long: `List and answer the calls that wait for the approval of a person. If a group has to
answer, the API key in the variable TOOLGATE_API_KEY says who you are.`,
	}
	ls := &cobra.Command{
		Use: "ls", Short: "List the calls that wait for an approval, or those in another --state", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"pending", "granted", "denied", "used", "expired", "all"}, state) {
				return failure.Newf(failure.Usage, "unknown --state %q; write pending, granted, denied, used, expired or all", state)
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				items, err := control.Approvals(cmd.Context(), strings.TrimPrefix(state, "all"))
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, approvalTable(items))
			})
		},
	}
	ls.Flags().StringVar(&state, "state", "pending", "pending, granted, denied, used, expired or all")
	show := &cobra.Command{
		Use: "show ID", Short: "Show a call with its arguments", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				item, err := control.Approval(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, approvalDetails(&item))
			})
		},
	}
	answer := func(do, short, long string) *cobra.Command {
		said := admin.Answer{Do: do}
		d := &cobra.Command{
			Use: do + " ID", Short: short, Long: long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return o.WithControl(cmd.Context(), func(control *admin.Client) error {
					said.Key = command.APIKey()
					item, err := control.Answer(cmd.Context(), args[0], said)
					if err != nil {
						return err
					}
					return o.Print(os.Stdout, approvalTable([]approval.Item{item}))
				})
			},
		}
		d.Flags().StringVar(&said.Reason, "reason", "", "the reason, for the audit log and, after a denial, for the caller")
		if do == admin.Approve {
			d.Flags().StringVar(&said.Hash, "hash", "", "the `hash` of the arguments, as show prints it; required if they are not shown in full")
		}
		return d
	}
	for _, sub := range []*cobra.Command{
		ls, show,
		answer(admin.Approve, "Approve a call, once", `Approve a call, once, with the arguments that the request shows. If show cannot print all
of them, confirm them with --hash: compare it with the hash of the arguments that the
caller gives you.`),
		answer(admin.Deny, "Refuse a call", `Refuse a call. For the time of approvals.valid, the same call of the same caller with the
same arguments is refused with the reason, and nobody is asked again.`),
		answer(admin.Retract, "Take a denial back", `Take a denial back before it expires: the next such call asks for an approval again.`),
	} {
		o.OutputFlag(sub)
		c.AddCommand(sub)
	}
	return c
}

func approvalTable(items []approval.Item) output.Table {
	t := output.Table{Header: []string{"ID", "STATE", "TOOL", "CALLER", "ANSWERS", "UNTIL", "ARGUMENTS", "DECIDED"}, Wide: 2, Data: append([]approval.Item{}, items...), Empty: "no calls wait for an approval"}
	for i := range items {
		item := &items[i]
		decided := item.DecidedBy
		if item.Reason != "" {
			decided += ": " + item.Reason
		}
		t.Rows = append(t.Rows, []string{
			item.ID, item.State, item.Tool, item.Subject + " of " + item.Tenant, answers(item.By),
			item.ExpiresAt.Local().Format(time.DateTime), notShown(item, ": ") + item.Arguments, decided,
		})
		t.Names = append(t.Names, item.ID)
	}
	return t
}

// notShown says how much of the arguments is not shown, followed by after. It is empty if
// they are complete.
func notShown(item *approval.Item, after string) string {
	if item.ArgsMissing == 0 || item.State != string(gate.ApprovalPending) && item.State != string(gate.ApprovalGranted) {
		return ""
	}
	return fmt.Sprintf("%d of %d bytes are not shown", item.ArgsMissing, item.ArgsBytes) + after
}

// answers names those who may answer, for each demand.
func answers(by [][]string) string {
	demands := make([]string, len(by))
	for i, one := range by {
		demands[i] = strings.Join(one, " or ")
	}
	return strings.Join(demands, ", and ")
}

func approvalDetails(item *approval.Item) output.Table {
	t := output.Table{Header: []string{item.ID, item.State}, Data: item, Names: []string{item.ID}}
	row := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	missing := notShown(item, "; approve needs --hash")
	row("arguments", missing)
	row("tool", item.Tool)
	row("server", item.Server)
	row("caller", item.Subject+" of "+item.Tenant)
	row("issuer", item.Issuer)
	for _, reason := range item.Reasons {
		row("because", reason)
	}
	row("answers", answers(item.By))
	row("asked", item.AskedAt.Local().Format(time.DateTime))
	row("until", item.ExpiresAt.Local().Format(time.DateTime))
	row("decided by", item.DecidedBy)
	row("reason", item.Reason)
	for i, line := range strings.Split(indented(item.Arguments), "\n") {
		name := ""
		if i == 0 {
			name = "arguments"
		}
		if line != "" {
			t.Rows = append(t.Rows, []string{name, line})
		}
	}
	row("hash", item.ArgsHash)
	row("arguments", missing)
	return t
}

// indented formats JSON for people.
func indented(raw string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(json.RawMessage(raw)); err != nil {
		return raw
	}
	return strings.TrimSuffix(out.String(), "\n")
}
