package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
)

// completeTime is how long the shell waits for names from the running gateway. Without a
// gateway, or after that time, there are no names. Nothing is started or printed.
const completeTime = 500 * time.Millisecond

// completeTools completes the first argument of a command to a tool of the
// configuration's gateway, and further arguments to the arguments of the tool.
func completeTools(o *command.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		tools := runningTools(o, cmd.Context())
		if len(args) == 0 {
			var out []cobra.Completion
			for _, raw := range tools {
				if name, _ := mcp.LookupString(raw, "name"); strings.HasPrefix(name, begun) {
					text, _ := mcp.LookupString(raw, "description")
					out = append(out, describe(name, text))
				}
			}
			return out, none
		}
		for _, raw := range tools {
			if name, _ := mcp.LookupString(raw, "name"); name == args[0] {
				return completeArguments(raw, args[1:], begun), none | cobra.ShellCompDirectiveNoSpace
			}
		}
		return nil, none
	}
}

// completeArguments returns the arguments of a tool that are not given yet.
func completeArguments(tool []byte, given []string, begun string) []cobra.Completion {
	var out []cobra.Completion
	for _, a := range arguments.Describe(mcp.Lookup(tool, "inputSchema")) {
		if !strings.HasPrefix(a.Name+"=", begun) || slices.ContainsFunc(given, func(pair string) bool { return strings.HasPrefix(pair, a.Name+"=") }) {
			continue
		}
		out = append(out, describe(a.Name+"=", a.Description))
	}
	return out
}

// describe returns a completion with a one-line description. It removes control
// characters, which the texts of a server may contain, from both.
func describe(name, text string) cobra.Completion {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return -1
			}
			return r
		}, s)
	}
	name, text = clean(name), clean(output.FirstLine(text, 60))
	if text == "" {
		return name
	}
	return cobra.CompletionWithDesc(name, text)
}

// runningTools lists the tools of the configuration's running gateway; none without a
// gateway.
func runningTools(o *command.Options, ctx context.Context) [][]byte {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	control := completionControl(o, ctx)
	if control == nil {
		return nil
	}
	stream, err := control.Stdio(ctx, command.APIKey(), "")
	if err != nil {
		return nil
	}
	defer stream.Close()
	tools, err := lineclient.New(stream).All(ctx, mcp.Tool)
	if err != nil {
		return nil
	}
	return tools
}

// completionControl returns a client for the gateway that the command would talk to, or
// nil if there surely is none. It creates no file or folder.
func completionControl(o *command.Options, ctx context.Context) *admin.Client {
	found, err := o.FindFile()
	if err != nil {
		return nil
	}
	path, _, err := target.Find(ctx, found, o.Config != "" || os.Getenv("TOOLGATE_CONFIG") != "")
	if err != nil {
		return nil
	}
	state, err := statedir.Find(path)
	if err != nil {
		return nil
	}
	token, err := os.ReadFile(filepath.Join(state.Path, "admin.token"))
	if err != nil {
		return nil
	}
	return &admin.Client{Path: state.Socket, Token: strings.TrimSpace(string(token)), Timeout: completeTime}
}

// completeServers completes the first argument to a server of the running gateway.
func completeServers(o *command.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		control := completionControl(o, cmd.Context())
		if len(args) > 0 || control == nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		status, err := control.Status(ctx)
		if err != nil {
			return nil, none
		}
		var out []cobra.Completion
		for i := range status.Servers {
			out = append(out, describe(status.Servers[i].Name, status.Servers[i].State))
		}
		return out, none
	}
}
