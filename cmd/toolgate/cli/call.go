package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/elicitation"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/spelling"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

func newCall(o *command.Options) *cobra.Command {
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
toolgate tools show TOOL lists the arguments.

If the tool asks something, you are asked on the terminal, and each answer is checked
against what the tool accepts. Ctrl-C cancels the question, and otherwise the call.`,
		Example: `  toolgate call demo__add a=2 b=40
  toolgate call issues__search filter.owner=me filter.tags=bug filter.tags=urgent
  toolgate call mail__send to=ann@example.com body=@letter.txt
  toolgate call files__read_file --json '{"path":"README.md"}'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pairs, err := arguments.Pairs(cmd.Context(), args[1:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if _, err := callParams(args[0], nil, pairs, object); err != nil {
				return err // before anything is started for it
			}
			return callByHand(cmd.Context(), o, args[0], pairs, object)
		},
	}
	c.Flags().StringVar(&object, "json", "", "arguments as a JSON `object`")
	c.ValidArgsFunction = completeTools(o)
	o.OutputFlag(c)
	return c
}

// callByHand calls a tool and prints its result. Ctrl-C cancels the question that is open,
// or the call, or what is done before it.
func callByHand(ctx context.Context, o *command.Options, name string, pairs []arguments.Pair, object string) error {
	c := &toolCall{name: name, quiet: o.Quiet}
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		width := func() int { return cmp.Or(screen.Of(os.Stderr).Width, 80) }
		c.person = elicitation.New(os.Stdin, func(format string, args ...any) { output.SayTo(os.Stderr, format, args...) }, width)
	}
	o.Live = liveOutput(o)
	c.live = o.Live
	ctx, stop := c.interruptible(ctx)
	defer stop()
	return withClient(o, ctx, func(ctx context.Context, client *lineclient.Client, status statusFunc) error {
		tool := listed(ctx, client, name)
		params, err := callParams(name, tool, pairs, object)
		if err != nil {
			return err
		}
		c.client, c.params = client, params
		result, err := c.run(ctx)
		if err != nil {
			return explainUnknown(ctx, name, refusedError(err), client, status)
		}
		if err := doubted(showResult(o, name, result), tool, pairs); err != nil {
			return err
		}
		return c.unanswered
	})
}

// explainUnknown adds to the error about an unknown tool which name may have been meant,
// and which servers offer nothing now.
func explainUnknown(ctx context.Context, tool string, err error, client *lineclient.Client, status statusFunc) error {
	if fault, ok := errors.AsType[*mcp.Error](err); !ok || fault.Message != "Unknown tool: "+tool {
		return err
	}
	hint := ""
	tools, listErr := client.All(ctx, mcp.Tool)
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

// toolCall is one call of a tool, with the questions that the tool asks meanwhile.
type toolCall struct {
	client *lineclient.Client
	name   string
	params []byte
	person *elicitation.Person // nil if nobody can be asked
	live   *screen.Live        // nil to show no progress
	quiet  bool

	unanswered error                                   // what nobody was there to answer
	cancel     atomic.Pointer[context.CancelCauseFunc] // what an interrupt ends
	progress   atomic.Pointer[string]                  // what the tool said last
}

// maxAsked bounds how often a tool asks during one call.
const maxAsked = 100

var errInterrupted = errors.New("interrupted")

// interruptible returns a context that Ctrl-C and SIGTERM end, except while they mean the
// call or a question alone. The context of the command would end at once, and its gateway
// before it could tell the tool's server.
func (c *toolCall) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c.cancel.Store(&cancel)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() { // ends with the command
		for {
			select {
			case s := <-signals:
				if s == os.Interrupt && c.person != nil && c.person.Interrupt() {
					continue
				}
				(*c.cancel.Load())(errInterrupted)
			case <-over:
				return
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		listening.Wait()
		cancel(nil)
	}
}

// run calls the tool, and calls it again with the answers for as long as it asks.
func (c *toolCall) run(whole context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(whole)
	defer cancel(nil)
	before := c.cancel.Swap(&cancel)
	defer c.cancel.Store(before)
	params := c.params
	var dismissed []byte
	for range maxAsked {
		result, err := c.wait(ctx, params)
		if kind, _ := mcp.LookupString(result, "resultType"); err != nil || kind != mcp.ResultInputRequired {
			return result, c.explain(ctx, err)
		}
		asked := mcp.Lookup(result, "inputRequests")
		if c.person == nil && gatewayAsks(asked) { // it says what else to do to those who cannot be asked
			c.client.Mute, params = true, c.params
			continue
		}
		answers, all, err := c.answer(ctx, asked)
		if !all && err == nil && bytes.Equal(dismissed, asked) {
			err = c.dismissed(asked)
		}
		if params = continued(c.params, answers, mcp.Lookup(result, "requestState")); err != nil {
			c.client.Abandon(ctx, mcp.MethodToolsCall, params)
			return nil, c.explain(ctx, err)
		}
		dismissed = nil
		if !all {
			dismissed = asked
		}
		if answers == nil { // there was no question: the server wants to be called again
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	return nil, failure.Newf(failure.Tool, "%s has asked %d times and is not called again", c.name, maxAsked)
}

// gatewayAsks tells whether the gateway asks, and not the server: for an approval or for a
// login, before the server is called.
func gatewayAsks(asked []byte) bool {
	return mcp.Lookup(asked, proxy.ApprovalInput) != nil || mcp.Lookup(asked, proxy.SignInInput) != nil
}

// dismissed says what becomes of a call whose question is cancelled a second time.
func (c *toolCall) dismissed(asked []byte) error {
	if c.unanswered != nil {
		return c.unanswered
	}
	if mcp.Lookup(asked, proxy.ApprovalInput) != nil {
		return failure.Newf(failure.Denied, "%s is not called: it waits for an approval; see `toolgate approvals ls`, or call it again to answer", c.name)
	}
	return failure.Newf(failure.Tool, "%s asks again what was cancelled, so the call is ended; call it again to answer", c.name)
}

// explain says in words what ended a call.
func (c *toolCall) explain(ctx context.Context, err error) error {
	fault, ok := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errInterrupted):
		return failure.Newf(failure.Unreachable, "%s was cancelled: its server is told to stop, but may have done a part already", c.name)
	case ok && fault.Code == mcp.CodeMissingCapability && mcp.Lookup(fault.Data, "requiredCapabilities", "sampling") != nil:
		return failure.Newf(failure.Tool, "%s asks its client for a language model (sampling), which this command does not have; call it from a client that has one", c.name)
	case ok && fault.Code == mcp.CodeMissingCapability && mcp.Lookup(fault.Data, "requiredCapabilities", "roots") != nil:
		return failure.Newf(failure.Tool, "%s asks its client for its folders (roots), which this command does not have; call it from a client that has some", c.name)
	}
	return err
}

// wait makes one request and shows meanwhile that it takes its time.
func (c *toolCall) wait(ctx context.Context, params []byte) ([]byte, error) {
	if c.live == nil || c.quiet {
		return c.client.Request(ctx, mcp.MethodToolsCall, params)
	}
	c.client.Progress = func(params []byte) {
		text := progressText(params)
		c.progress.Store(&text)
	}
	end := c.live.Wait(func() *screen.Screen { return screen.Of(os.Stderr) }, func(took time.Duration) string {
		text := c.name
		if said := c.progress.Load(); said != nil {
			text += "  " + *said
		}
		return fmt.Sprintf("%s ... %.0f s", text, took.Seconds())
	})
	defer end()
	return c.client.Request(ctx, mcp.MethodToolsCall, params)
}

// progressText is what a progress notification says: 3 of 10  reading pages.
func progressText(params []byte) string {
	const most = 24 // digits of a number
	number := func(key string) string {
		raw := mcp.Lookup(params, key)
		return string(raw[:min(len(raw), most)])
	}
	text := number("progress")
	if total := number("total"); total != "" {
		text += " of " + total
	}
	if message, _ := mcp.LookupString(params, "message"); message != "" && message != text {
		text += "  " + output.FirstLine(message, 200)
	}
	return text
}

// answer puts questions to the person. all is false if one was cancelled. With an error,
// what is not answered counts as cancelled.
func (c *toolCall) answer(ctx context.Context, asked []byte) (answers []byte, all bool, err error) {
	all = true
	for m := range mcp.Members(asked) {
		key, keyErr := mcp.Unquote(m.Key(asked))
		if keyErr != nil {
			continue
		}
		request := m.Value.Of(asked)
		answer := []byte(elicitation.Cancel)
		method, _ := mcp.LookupString(request, "method")
		switch {
		case err != nil:
		case method != mcp.MethodElicit:
			err = failure.Newf(failure.Tool, "%s asks its client for something that this command does not have (%s); call it from another client", c.name, method)
		case c.person == nil:
			c.unanswered = cmp.Or(c.unanswered, failure.Newf(failure.Tool, "%s asks %s; nobody could be asked, so the question was cancelled: run the command on a terminal to answer", c.name, elicitation.Summary(mcp.Lookup(request, "params"))))
		default:
			var said []byte
			if said, err = c.person.Ask(ctx, c.name, mcp.Lookup(request, "params")); err == nil {
				answer = said
			}
		}
		all = all && string(answer) != elicitation.Cancel
		answers = mcp.SetMember(answers, key, answer)
	}
	return answers, all, err
}

// continued returns the params of a call that goes on with answers. state is nil if there
// is none, and must not be sent then.
func continued(params, answers, state []byte) []byte {
	if answers != nil {
		params = mcp.SetMember(params, "inputResponses", answers)
	}
	if state != nil {
		params = mcp.SetMember(params, "requestState", state)
	}
	return params
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
func listed(ctx context.Context, client *lineclient.Client, name string) []byte {
	tools, err := client.All(ctx, mcp.Tool)
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
func showResult(o *command.Options, tool string, result []byte) error {
	failed := string(mcp.Lookup(result, "isError")) == "true"
	refused := mcp.Lookup(result, "_meta", refusal.Key)
	switch o.Output {
	case "json":
		var out bytes.Buffer
		if err := json.Indent(&out, result, "", "  "); err != nil {
			return err
		}
		fmt.Printf("%s\n", output.EscapedJSON(out.Bytes()))
	case "yaml":
		if err := output.YAML(os.Stdout, json.RawMessage(result)); err != nil {
			return err
		}
	default:
		content, screen := mcp.Lookup(result, "content"), term.IsTerminal(int(os.Stdout.Fd()))
		silent := true
		for e := range mcp.Elements(content) {
			block := e.Of(content)
			text, ok := mcp.LookupString(block, "text")
			silent = silent && ok && strings.TrimSpace(text) == ""
			if ok {
				if screen { // a program gets the text as it is
					text = output.Escaped(text)
				}
				fmt.Println(text)
				continue
			}
			kind, _ := mcp.LookupString(block, "type")
			output.Say("[%s, %d bytes]\n", kind, len(block))
		}
		if silent && !failed && command.Talks(o) {
			output.Note("%s has answered, without any text", tool)
		}
	}
	if !failed {
		return nil
	}
	if refused != nil {
		return explainRefused(tool, refused)
	}
	return failure.Newf(failure.Tool, "the tool reports an error")
}

var errRefused = errors.New("the gateway refused the call")

// explainRefused says where to look after a call without a result.
func explainRefused(tool string, facts []byte) error {
	err := refusedExit(facts, errRefused)
	kind, _ := mcp.LookupString(facts, "kind")
	switch code, _ := exitCode(err); {
	case code == exitDenied:
		return fmt.Errorf("%w; `toolgate why %s` says which rule, and what would lift it", err, tool)
	case code == exitUnreachable:
		return failure.Newf(failure.Unreachable, "there is no answer to the call; `toolgate ls` shows how its server is, and `toolgate logs --previous SERVER` what it wrote before it ended")
	case kind == "invalid_arguments":
		return fmt.Errorf("%w; `toolgate tools show %s` shows its arguments", err, tool)
	}
	return err
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
