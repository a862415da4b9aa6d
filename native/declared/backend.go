package declared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// maxTime limits a request, even if its call may take longer.
const maxTime = 30 * time.Minute

// Backend serves declared tools under one key. Its tools do not change. It has no
// connections and is ready at once. It leaves out commands that must be confined and
// cannot be on this machine; its state says so. It is safe for concurrent use.
type Backend struct {
	name     string
	listing  *mcp.Listing
	tools    map[string]*compiled
	withheld []string // why commands are left out
}

// New returns a backend with the tools. The error lists every mistake in them, by name.
func New(name string, tools []Tool) (*Backend, error) {
	b := &Backend{name: name, tools: make(map[string]*compiled), listing: &mcp.Listing{
		Era: mcp.Modern, Version: mcp.V20260728, Capabilities: []byte(`{"tools":{}}`), FetchedAt: time.Now(),
		Items: make(map[mcp.Kind][]mcp.Item), TTL: map[mcp.Kind]time.Duration{mcp.Tool: time.Hour},
	}}
	var wrong []error
	for i := range tools {
		c, err := compile(tools[i])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the tool %s: %w", cmp.Or(tools[i].Name, "without a name"), err))
		} else if b.tools[c.Name] != nil {
			wrong = append(wrong, fmt.Errorf("the tool %s is there twice", c.Name))
		}
		if err != nil || b.tools[c.Name] != nil || c.Template {
			if c.run != nil {
				c.run.close()
			}
			continue
		}
		if why := withheld(c.Command); why != nil {
			b.withheld = append(b.withheld, fmt.Sprintf("%s is not offered: %v", c.Name, why))
			continue
		}
		b.tools[c.Name] = c
		b.listing.Items[mcp.Tool] = append(b.listing.Items[mcp.Tool], c.item)
	}
	if err := errors.Join(wrong...); err != nil {
		b.Close()
		return nil, err
	}
	slices.SortFunc(b.listing.Items[mcp.Tool], func(a, b mcp.Item) int { return strings.Compare(a.Key, b.Key) })
	return b, nil
}

// Close frees the connections that tools keep between calls.
func (b *Backend) Close() {
	for _, c := range b.tools {
		c.run.close()
	}
}

// Name returns the backend's key.
func (b *Backend) Name() string { return b.name }

// Listing returns the tools.
func (b *Backend) Listing() (*mcp.Listing, mcp.Status) {
	status := mcp.Status{State: mcp.Ready, Since: b.listing.FetchedAt}
	if len(b.withheld) > 0 {
		status.State, status.Reason = mcp.Degraded, strings.Join(b.withheld, "; ")
	}
	return b.listing, status
}

// Probe always succeeds: only calls contact what the tools reach.
func (b *Backend) Probe(context.Context) error { return nil }

// Check returns what is wrong with the arguments of a call, in a sentence for the caller:
// what [Backend.Call] would answer without reaching or running anything. It is empty if
// the values fit the template. The arguments are a JSON object or nil.
func (b *Backend) Check(ctx context.Context, tool string, args []byte) string {
	c := b.tools[tool]
	if c == nil {
		return "" // the call says so
	}
	if args == nil {
		args = noArguments
	}
	text, _ := c.unfit(c.check(ctx, c.values(args), args))
	return text
}

// check returns the problem with the values of a call: by the schema of the template that
// the tool was made of, or because the request or command cannot be made of them.
func (c *compiled) check(ctx context.Context, v placeholder.Values, args []byte) error {
	if err := c.fits(v); err != nil {
		return err
	}
	return c.run.check(ctx, v, c.whole(v, args))
}

// whole returns all arguments of a call, as a template with "{*}" gets them. Those of a tool
// that an agent made of a template are the values that were held against the template's
// schema, defaults included, and nothing that this schema does not name.
func (c *compiled) whole(v placeholder.Values, args []byte) []byte {
	if c.Within == nil {
		return args
	}
	named := propertiesOf(c.Within)
	known := make(placeholder.Values, len(v))
	for name, value := range v {
		if _, there := named[name]; there {
			known[name] = value
		}
	}
	return known.Object()
}

// fits holds the values of a call against the schema of the tool's template.
func (c *compiled) fits(v placeholder.Values) error {
	if c.Fits == nil {
		return nil
	}
	if text := c.Fits(v.Object()); text != "" {
		return placeholder.Problem(text)
	}
	return nil
}

// noArguments are the arguments of a call that has none.
var noArguments = []byte("{}")

// unfit returns the sentence of an error that is about the values of a call.
func (c *compiled) unfit(err error) (text string, ok bool) {
	if p, ok := errors.AsType[placeholder.Problem](err); ok {
		return c.hide(string(p)), true
	}
	if refusal, ok := errors.AsType[*egress.Refusal](err); ok {
		return c.hide(sentence(refusal.Error())), true
	}
	return "", false
}

// errLate is the cause of a call that exceeded its deadline.
var errLate = errors.New("the call took too long")

// Call runs a tool.
func (b *Backend) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Method != mcp.MethodToolsCall {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", call.Method)}, nil
	}
	name, _ := mcp.LookupString(call.Params, "name")
	c := b.tools[name]
	if c == nil {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)}, nil
	}
	args := mcp.Lookup(call.Params, "arguments")
	if args == nil {
		args = noArguments
	}
	limit := cmp.Or(call.Timeout, c.Timeout)
	bounded, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	given := c.values(args)
	if err := c.fits(given); err != nil {
		return b.failed(ctx, bounded, c, limit, err)
	}
	if c.steps != nil {
		answer, err := c.steps.call(ctx, bounded, call, limit, given, c.whole(given, args))
		if err != nil {
			return b.failed(ctx, bounded, c, limit, err)
		}
		return answer, nil
	}
	got, err := c.run.run(bounded, given, c.whole(given, args))
	if err != nil {
		return b.failed(ctx, bounded, c, limit, err)
	}
	return c.result(&got), nil
}

// failed turns an error of a tool into an answer or a failure.
func (b *Backend) failed(ctx, bounded context.Context, c *compiled, limit time.Duration, err error) (mcp.Answer, error) {
	if text, ok := c.unfit(err); ok {
		return told(text), nil
	}
	if ctx.Err() != nil {
		return mcp.Answer{}, context.Cause(ctx)
	}
	if bounded.Err() != nil {
		return mcp.Answer{}, &mcp.Failure{
			Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: b.name, Delivered: true, Err: err,
			Reason: fmt.Sprintf("The tool %s did not answer within %s.", c.Name, limit),
		}
	}
	return mcp.Answer{}, &mcp.Failure{
		Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Server: b.name, Delivered: true, Err: errors.New(c.hide(err.Error())),
		Reason: fmt.Sprintf("The tool %s could not do it: %s.", c.Name, c.hide(err.Error())),
	}
}

// sentence returns an error as a sentence.
func sentence(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	return strings.ToUpper(string(first)) + text[n:] + "."
}

// told returns an answer that is only a sentence.
func told(text string) mcp.Answer { return answerOf(text, nil, true) }

func answerOf(text string, structured []byte, failed bool) mcp.Answer {
	out := append([]byte(`{"content":[{"type":"text","text":`), mcp.Quote(text)...)
	out = append(out, "}]"...)
	if structured != nil {
		out = append(append(out, `,"structuredContent":`...), structured...)
	}
	if failed {
		out = append(out, `,"isError":true`...)
	}
	return mcp.Answer{Era: mcp.Modern, Result: append(out, '}')}
}

// mostTold limits how much of the output of a failed tool is shown, in bytes.
const mostTold = 4000

// result returns the answer for an outcome. It first removes the secrets of the tool, so
// that all later steps work on the text that is shown.
func (c *compiled) result(o *outcome) mcp.Answer {
	text := c.hide(strings.ToValidUTF8(string(o.text), "\ufffd"))
	if o.failed != "" {
		for _, more := range [...]string{text, c.hide(strings.ToValidUTF8(o.more, "\ufffd"))} {
			if more = strings.TrimSpace(more); more != "" {
				o.failed += "\n\n" + clip(more)
			}
		}
		return told(o.failed)
	}
	raw := []byte(strings.TrimSpace(text))
	valid := o.json && !o.cut && mcp.Validate(raw, mcp.Limits{}) == nil
	switch {
	case c.Answer != "" && o.cut:
		return told(fmt.Sprintf("The answer is larger than %d bytes.", c.MaxBytes))
	case c.Answer != "" && !valid:
		return told("The answer is not JSON.\n\n" + clip(text))
	case c.Answer != "":
		if raw = c.answer.of(raw); raw == nil {
			return told(fmt.Sprintf("The answer has nothing at %s.", c.Answer))
		}
		text = string(raw)
		if plain, err := mcp.Unquote(raw); err == nil {
			text = c.hide(plain) // even if the answer escaped it
		}
	}
	if c.Output != nil {
		if !valid || !mcp.IsObject(raw) {
			return told("The answer is not a JSON object, as the tool's output schema says.\n\n" + clip(text))
		}
		return answerOf(text, raw, false)
	}
	if o.cut {
		text += "\n\n[cut: the answer is larger than what is read of it]"
	}
	return answerOf(text, nil, false)
}

func clip(text string) string {
	if len(text) > mostTold {
		return strings.ToValidUTF8(text[:mostTold], "") + "..."
	}
	return text
}
