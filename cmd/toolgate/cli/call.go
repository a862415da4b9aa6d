package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/spelling"
	"github.com/toolgate/toolgate/proxy/refusal"
)

func newCall(o *options) *cobra.Command {
	var object string
	c := &cobra.Command{
		Use:   "call TOOL [NAME=VALUE ...]",
		Short: "Call a tool through the gateway",
		Long: `Call a tool through the gateway. The call passes every check that a client's call
passes.

A value becomes what the tool's schema says: text, a number, true or false, or JSON.
Repeat a name to fill a list. A name with dots fills an object: filter.owner=me is the
member owner of filter. NAME=@FILE takes the value from a file, as text where the
schema wants text and as JSON elsewhere; @- is stdin, and @@ begins a text with @.
toolgate tools show TOOL lists the arguments.`,
		Example: `  toolgate call demo__add a=2 b=40
  toolgate call issues__search filter.owner=me filter.tags=bug filter.tags=urgent
  toolgate call mail__send to=ann@example.com body=@letter.txt
  toolgate call files__read_file --json '{"path":"README.md"}'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pairs, err := arguments.Pairs(args[1:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if _, err := callParams(args[0], nil, pairs, object); err != nil {
				return err // before anything is started for it
			}
			return o.withClient(cmd.Context(), func(ctx context.Context, client *lineClient, status statusFunc) error {
				tool := listed(ctx, client, args[0])
				params, err := callParams(args[0], tool, pairs, object)
				if err != nil {
					return err
				}
				result, err := client.request(ctx, mcp.MethodToolsCall, params)
				if err != nil {
					return explainUnknown(ctx, args[0], refusedError(err), client, status)
				}
				return doubted(o.showResult(args[0], result), tool, pairs)
			})
		},
	}
	c.Flags().StringVar(&object, "json", "", "arguments as a JSON `object`")
	c.ValidArgsFunction = o.completeTools
	o.outputFlag(c)
	return c
}

// explainUnknown adds to the error about an unknown tool which name may have been meant,
// and which servers offer nothing now.
func explainUnknown(ctx context.Context, tool string, err error, client *lineClient, status statusFunc) error {
	if fault, ok := errors.AsType[*mcp.Error](err); !ok || fault.Message != "Unknown tool: "+tool {
		return err
	}
	hint := ""
	tools, listErr := client.all(ctx, mcp.Tool)
	if listErr != nil {
		return err
	}
	for _, raw := range tools {
		if name, _ := mcp.LookupString(raw, "name"); hint == "" && spelling.Similar(tool, name) {
			hint = fmt.Sprintf("; did you mean %s?", name)
		}
	}
	owner, others := status.absentFor(ctx, tool)
	switch {
	case status.held(ctx, tool):
		return failure.Newf(failure.Tool, "%s is held: its definition is new or changed or looks like prompt injection, and nobody has accepted it; look at it with `toolgate catalog diff %s`, then `toolgate catalog accept %s` serves it", tool, tool, tool)
	case owner != "":
		return failure.Newf(failure.Unreachable, "%s cannot be called now: %s", tool, owner)
	case others == 1:
		hint += "; one server offers nothing now, see `toolgate ls`"
	case others > 1:
		hint += fmt.Sprintf("; %d servers offer nothing now, see `toolgate ls`", others)
	}
	return failure.Newf(failure.Tool, "%w%s; `toolgate tools` lists the tools", err, hint)
}

// doubted adds to the error of a call which argument may be misspelt.
func doubted(err error, tool []byte, pairs []arguments.Pair) error {
	known, ok := errors.AsType[*failure.Error](err)
	if !ok {
		return err
	}
	if doubt := arguments.Doubt(mcp.Lookup(tool, "inputSchema"), pairs); doubt != "" {
		return failure.Newf(known.Kind, "%w; %s", err, doubt)
	}
	return err
}

// callParams builds the params of tools/call. tool is the tool as it is listed; nil if it
// is not.
func callParams(name string, tool []byte, pairs []arguments.Pair, object string) ([]byte, error) {
	var given []byte
	if object != "" {
		given = []byte(object)
	}
	all, err := arguments.Parse(mcp.Lookup(tool, "inputSchema"), given, pairs)
	if err != nil {
		return nil, err
	}
	params := append([]byte(`{"name":`), mcp.Quote(name)...)
	return append(append(append(params, `,"arguments":`...), all...), '}'), nil
}

// listed returns a tool as the gateway lists it; nil if it does not.
func listed(ctx context.Context, client *lineClient, name string) []byte {
	tools, err := client.all(ctx, mcp.Tool)
	if err != nil {
		return nil // the call itself says more
	}
	for _, raw := range tools {
		if got, _ := mcp.LookupString(raw, "name"); got == name {
			return raw
		}
	}
	return nil
}

// showResult prints a tool's result: its texts for a person, or all of it for a program.
func (o *options) showResult(tool string, result []byte) error {
	failed := string(mcp.Lookup(result, "isError")) == "true"
	refused := mcp.Lookup(result, "_meta", refusal.Key)
	switch o.output {
	case "json":
		var out bytes.Buffer
		if err := json.Indent(&out, result, "", "  "); err != nil {
			return err
		}
		fmt.Printf("%s\n", escapedJSON(out.Bytes()))
	case "yaml":
		if err := writeYAML(os.Stdout, json.RawMessage(result)); err != nil {
			return err
		}
	default:
		content, screen := mcp.Lookup(result, "content"), term.IsTerminal(int(os.Stdout.Fd()))
		for e := range mcp.Elements(content) {
			block := e.Of(content)
			if text, ok := mcp.LookupString(block, "text"); ok {
				if screen { // a program gets the text as it is
					text = escaped(text)
				}
				fmt.Println(text)
				continue
			}
			kind, _ := mcp.LookupString(block, "type")
			say("[%s, %d bytes]\n", kind, len(block))
		}
	}
	if !failed {
		return nil
	}
	if refused != nil {
		err := refusedExit(refused, errors.New("the gateway refused the call"))
		if code, _ := exitCode(err); code == exitDenied {
			err = fmt.Errorf("%w; `toolgate why %s` says which rule, and what would lift it", err, tool)
		}
		return err
	}
	return failure.Newf(failure.Tool, "the tool reports an error")
}

// refusedError gives an error of the gateway its exit code.
func refusedError(err error) error {
	var fault *mcp.Error
	if !errors.As(err, &fault) {
		return err
	}
	if fault.Data != nil && mcp.Lookup(fault.Data, "kind") != nil {
		return refusedExit(fault.Data, err)
	}
	return failure.New(failure.Tool, err)
}

// refusedExit maps the kind of a refusal to an exit code.
func refusedExit(facts []byte, err error) error {
	name, _ := mcp.LookupString(facts, "kind")
	for kind, names := range refusalExits {
		if slices.Contains(names, name) {
			return failure.New(kind, err)
		}
	}
	return failure.New(failure.Tool, err)
}

// refusalExits are the refusals that have another exit code than an error of a tool.
var refusalExits = map[failure.Kind][]string{
	failure.Denied: {
		"denied", "governance", "insufficient_scope", "approval_needed", "approval_pending", "approval_denied",
		"schema_busy", "schema_refused", "policy_error", "authz_unavailable", "authz_misconfigured",
	},
	failure.Budget: {
		"budget", "plan_unknown", "budget_unavailable", "rate_limited", "repeated_call",
		"too_many_calls", "too_many_open_calls", "too_many_sessions", "too_many_subscriptions",
	},
	failure.Breaker: {"breaker_open"},
	failure.Auth:    {string(mcp.FailLogin)},
	failure.Unreachable: {
		string(mcp.FailUnavailable), string(mcp.FailTimeout), string(mcp.FailDisabled), string(mcp.FailBusy), "upstream_gone",
		"audit_unavailable", "registry_unavailable", "store_unavailable", "gateway_busy", "shutting_down",
	},
}
