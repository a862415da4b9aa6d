package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newExport(o *command.Options) *cobra.Command {
	format := "mcp"
	c := &cobra.Command{
		Use:   "export",
		Short: "Print the definitions of the tools, for programs that do not speak MCP",
		Long: `Print the definitions of the tools that the caller sees, as JSON. With --format mcp
they are as in the result of tools/list. With --format openai they are the list of
functions that the API of OpenAI, and of many others, accepts as "tools". A call of
one of them is then a tools/call with the same name.`,
		Args: command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			export := exporters[format]
			if export == nil {
				return failure.Newf(failure.Usage, "unknown --format %s; write mcp or openai", format)
			}
			return withClient(o, cmd.Context(), func(ctx context.Context, client *lineclient.Client, _ statusFunc) error {
				items, err := client.All(ctx, mcp.Tool)
				if err != nil {
					return refusedError(err)
				}
				var out bytes.Buffer
				if err := json.Indent(&out, export(items), "", "  "); err != nil {
					return fmt.Errorf("write the definitions: %w", err)
				}
				out.WriteByte('\n')
				_, err = out.WriteTo(os.Stdout)
				return err
			})
		},
	}
	c.Flags().StringVar(&format, "format", format, "mcp or openai")
	return c
}

// exporters turn listed tools into JSON. The contents of a definition are copied
// unchanged.
var exporters = map[string]func(items [][]byte) []byte{
	"mcp": func(items [][]byte) []byte {
		return append(append([]byte(`{"tools":[`), bytes.Join(items, []byte(","))...), "]}"...)
	},
	"openai": func(items [][]byte) []byte {
		functions := make([][]byte, len(items))
		for i, raw := range items {
			functions[i] = openAIFunction(raw)
		}
		return append(append([]byte("["), bytes.Join(functions, []byte(","))...), ']')
	},
}

// openAIFunction is a tool as an OpenAI function. Members without an equivalent are left
// out.
func openAIFunction(tool []byte) []byte {
	name, _ := mcp.LookupString(tool, "name")
	description, _ := mcp.LookupString(tool, "description")
	title, _ := mcp.LookupString(tool, "title")
	out := append([]byte(`{"type":"function","function":{"name":`), mcp.Quote(name)...)
	if text := cmp.Or(description, title); text != "" {
		out = append(append(out, `,"description":`...), mcp.Quote(text)...)
	}
	if schema := mcp.Lookup(tool, "inputSchema"); mcp.IsObject(schema) {
		if mcp.Lookup(schema, "properties") == nil { // required there
			schema = mcp.SetMember(schema, "properties", []byte("{}"))
		}
		out = append(append(out, `,"parameters":`...), schema...)
	}
	return append(out, "}}"...)
}
