package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/decide"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newToolsShow(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a tool: what it does, its arguments, and how to call it",
		Long: `Show a tool: what it does, its class, its arguments, what it returns, and how to call
it. A name with dots is that of a member of an object. With authentication, toolgate why
says who may call the tool.`,
		Example: "  toolgate tools show demo__add",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithGateway(cmd.Context(), func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
				client, end, err := openClient(ctx, o, control, own)
				if err != nil {
					return err
				}
				defer end()
				tool := listed(ctx, client, args[0])
				if tool == nil {
					unknown := &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown tool: " + args[0]}
					return explainUnknown(ctx, args[0], failure.New(failure.Tool, unknown), client, statusOf(control, own))
				}
				var known catalogAnswers = control
				if own != nil {
					known = own.Control()
				}
				return printTool(o, args[0], tool, toolFacts(ctx, known, args[0]))
			})
		},
		ValidArgsFunction: completeTools(o),
	}
	o.OutputFlag(c)
	return c
}

// catalogAnswers is what a gateway knows about a tool besides what it lists.
type catalogAnswers interface {
	admin.Explainer
	CatalogEntry(ctx context.Context, name, kind string) (admin.CatalogEntry, error)
}

// toolFacts are lines about a tool from the gateway: its class, and whether it may be
// called. What a gateway does not tell is left out.
func toolFacts(ctx context.Context, g catalogAnswers, name string) [][2]string {
	var facts [][2]string
	if e, err := g.CatalogEntry(ctx, name, mcp.Tool.String()); err == nil {
		class := decide.ClassText(&e)
		if e.Said == "" && e.Class == registry.ClassDestructive {
			class = "unclassed: the hints of its server open nothing, so rules take it for destructive (toolgate catalog class " + name + " CLASS)"
		}
		facts = append(facts, [2]string{"class", class})
		if len(e.Config) > 0 {
			facts = append(facts, [2]string{"the operator set", string(e.Config)})
		}
	}
	may := "toolgate why " + name + " --everyone"
	if w, err := g.Why(ctx, admin.WhyQuestion{Name: name}); err == nil {
		may = inOneSentence(&w) + " (toolgate why " + name + ")"
	}
	return append(facts, [2]string{"who may call it", may})
}

// printTool prints a tool as it is listed.
func printTool(o *command.Options, name string, tool []byte, facts [][2]string) error {
	in, out := mcp.Lookup(tool, "inputSchema"), mcp.Lookup(tool, "outputSchema")
	all := arguments.Describe(in)
	if o.Output != "table" && o.Output != "wide" {
		return o.Print(os.Stdout, output.Table{Data: json.RawMessage(tool), Names: []string{name}})
	}
	text, _ := mcp.LookupString(tool, "description")
	output.Say("%s\n\n%s\n\n", name, strings.TrimSpace(text))
	if hints := mcp.Lookup(tool, "annotations"); mcp.IsObject(hints) {
		facts = append([][2]string{{"its server says", string(hints)}}, facts...)
	}
	if says := readOnlyText(readOnlyHint(tool)); says != "-" {
		facts = append([][2]string{{"read-only", says + ", as its server says"}}, facts...)
	}
	for _, f := range append(facts, [2]string{"example", arguments.Example(name, in)}) {
		output.Say("%-16s %s\n", f[0], f[1])
	}
	if len(all) == 0 {
		output.Say("\nIt takes no arguments.\n")
	} else {
		output.Say("\n")
		if err := o.Print(os.Stdout, schemaTable("ARGUMENT", all)); err != nil {
			return err
		}
	}
	if results := arguments.Describe(out); len(results) > 0 {
		output.Say("\n")
		return o.Print(os.Stdout, schemaTable("RESULT", results))
	}
	return nil
}

// schemaTable shows the members that a schema describes.
func schemaTable(title string, all []arguments.Argument) output.Table {
	t := output.Table{Header: []string{title, "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}}
	for _, a := range all {
		required := "-"
		if a.Required {
			required = "yes"
		}
		t.Rows = append(t.Rows, []string{a.Name, cmp.Or(a.Type, "any"), required, cmp.Or(a.Default, "-"), output.FirstLine(a.Description, 120)})
	}
	return t
}
