package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

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
passes. A value that is valid JSON is sent as such, everything else as text.`,
		Example: "  toolgate call demo__add a=2 b=40\n  toolgate call files__read_file --json '{\"path\":\"README.md\"}'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := callParams(args[0], nil, args[1:], object); err != nil {
				return err // before anything is started for it
			}
			return o.withClient(cmd.Context(), func(ctx context.Context, client *lineClient, status statusFunc) error {
				params, err := callParams(args[0], listed(ctx, client, args[0]), args[1:], object)
				if err != nil {
					return err
				}
				result, err := client.request(ctx, mcp.MethodToolsCall, params)
				if err != nil {
					return explainUnknown(ctx, args[0], refusedError(err), client, status)
				}
				return o.showResult(args[0], result)
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

// callParams builds the params of tools/call. tool is the tool as it is listed; nil if it
// is not.
func callParams(name string, tool []byte, pairs []string, object string) ([]byte, error) {
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

func newToolsShow(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a tool: what it does, its arguments, and how to call it",
		Example: "  toolgate tools show demo__add",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withClient(cmd.Context(), func(ctx context.Context, client *lineClient, status statusFunc) error {
				tool := listed(ctx, client, args[0])
				if tool == nil {
					unknown := &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown tool: " + args[0]}
					return explainUnknown(ctx, args[0], failure.New(failure.Tool, unknown), client, status)
				}
				return printTool(o, args[0], tool)
			})
		},
		ValidArgsFunction: o.completeTools,
	}
	o.outputFlag(c)
	return c
}

// printTool prints a tool as it is listed.
func printTool(o *options, name string, tool []byte) error {
	schema := mcp.Lookup(tool, "inputSchema")
	all := arguments.Describe(schema)
	t := table{header: []string{"ARGUMENT", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}, data: json.RawMessage(tool), names: []string{name}}
	for _, a := range all {
		required := "-"
		if a.Required {
			required = "yes"
		}
		t.rows = append(t.rows, []string{a.Name, cmp.Or(a.Type, "any"), required, cmp.Or(a.Default, "-"), firstLine(a.Description, 120)})
	}
	people := o.output == "table" || o.output == "wide"
	if people {
		text, _ := mcp.LookupString(tool, "description")
		say("%s\n\n%s\n\n", name, strings.TrimSpace(text))
		if hints := mcp.Lookup(tool, "annotations"); mcp.IsObject(hints) {
			say("its server says  %s\n", hints)
		}
		say("example          %s\n", arguments.Example(name, schema))
		say("who may call it  toolgate why %s\n\n", name)
		if len(all) == 0 {
			say("It takes no arguments.\n")
			return nil
		}
	}
	return o.print(os.Stdout, t)
}
