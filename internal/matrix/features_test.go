//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream"
)

// feature is one row of the matrix: something that a client does through the
// gateway with a server.
type feature struct {
	name       string
	impossible func(down, up kind) *reason
	// isolation is how the server is mounted for it; nil is auto everywhere.
	isolation func(down, up kind) upstream.Isolation
	// bare runs it with a client that declares no capabilities.
	bare bool
	// run is the cell; nil is run for all clients together, see together.
	run func(ctx context.Context, c *cell) error
}

// features are all rows, in the order of the page.
var features = []*feature{
	{name: "plain call: 64-bit integers and unknown members survive", impossible: everywhere, run: plainCall},
	{name: "a server's error with its data", impossible: everywhere, run: serverError},
	{name: "read a resource, get a prompt", impossible: everywhere, run: readAndGet},
	{name: "sampling", impossible: everywhere, run: ask(oneRound(sampling))},
	{name: "sampling with tools", impossible: since(mcp.V20251125, noSamplingTools), run: ask(oneRound(samplingTools))},
	{name: "elicitation, form", impossible: since(mcp.V20250618, noElicitation), run: ask(oneRound(form))},
	{name: "elicitation, url", impossible: since(mcp.V20251125, noURLElicitation), run: ask(oneRound(visit))},
	{name: "roots", impossible: everywhere, isolation: perSession, run: ask(oneRound(roots))},
	{name: "several questions in one round", impossible: everywhere, run: ask(several)},
	{name: "three rounds one after the other", impossible: everywhere, run: ask(threeRounds)},
	{name: "a question in prompts/get", impossible: everywhere, run: askIn(mcp.MethodPromptsGet)},
	{name: "a question in resources/read", impossible: everywhere, run: askIn(mcp.MethodRead)},
	{name: "a question that the client did not declare is not asked", impossible: everywhere, bare: true, run: undeclared},
	{name: "progress", impossible: everywhere, run: progress},
	{name: "cancellation", impossible: everywhere, run: cancellation},
	{name: "log messages", impossible: everywhere, isolation: perPrincipal, run: logging},
	{name: "updates of a resource", impossible: everywhere, isolation: perPrincipal, run: updates},
	{name: "updates of a resource, while the subscriptions change", impossible: everywhere, run: unsettled},
	{name: listChanges, impossible: everywhere},
	{name: channelChanges, impossible: channelIsStream},
	{name: "lists", impossible: everywhere, run: lists},
	{name: "contents of a result", impossible: everywhere, run: contents},
	{name: "completion", impossible: everywhere, run: completion},
	{name: "a tool that needs tasks, for a client without", impossible: tasksUpstream, run: driveTask},
	{name: "tasks", impossible: since(mcp.V20251125, noTasks), run: tasks},
	{name: "arguments in headers", impossible: everywhere, run: headers},
	{name: "MCP Apps", impossible: everywhere, run: apps},
	{name: "a broken stream is resumed by the client", impossible: resumable(true), run: resumed},
	{name: "a broken stream is resumed towards the server", impossible: resumable(false), run: resuming},
}

// notYet are features that the gateway is known not to have in all cells. They
// are run and reported; one that works in all of its cells fails the run, so
// that it is taken off the list.
var notYet = []string{}

// perSession is for what a legacy server may only ask of the one session that
// its connection belongs to.
func perSession(_, up kind) upstream.Isolation {
	if up.modern() {
		return upstream.IsolateAuto
	}
	return upstream.IsolateSession
}

// perPrincipal is for what a modern process says without saying about what, and
// for subscriptions to a server that has no last word on one: a change of one
// holds up all others on the same channel.
func perPrincipal(_, up kind) upstream.Isolation {
	if up.modern() && up.over == overStdio {
		return upstream.IsolatePrincipal
	}
	return upstream.IsolateAuto
}

func channelIsStream(down, _ kind) *reason {
	if down.modern() || down.streams() {
		return noStream
	}
	return nil
}

func tasksUpstream(_, up kind) *reason {
	if up.rev < mcp.V20251125 {
		return noTasks
	}
	return nil
}

// resumable tells which side of the cell must have streams that can be resumed.
func resumable(client bool) func(down, up kind) *reason {
	return func(down, up kind) *reason {
		side := up
		if client {
			side = down
		}
		if side.modern() || !side.streams() {
			return noResumption
		}
		return nil
	}
}

// arguments are those of a tool for the cell; more are further members.
func (c *cell) arguments(more string) string { return `{"cell":"` + c.id + `"` + more + `}` }

// params are those of a call of a tool.
func (c *cell) params(tool, more string) []byte {
	return []byte(`{"name":"` + c.to.tool(tool) + `","arguments":` + c.arguments(more) + `}`)
}

// call runs a tool to its result, which must not be an error.
func (c *cell) call(ctx context.Context, tool, more string) (outcome, error) {
	return c.good(c.client.do(ctx, mcp.MethodToolsCall, c.params(tool, more)))
}

// good refuses an outcome that is an error of either kind.
func (c *cell) good(got outcome, err error) (outcome, error) {
	switch {
	case err != nil:
		return got, err
	case got.fault != nil:
		return got, fmt.Errorf("%w %s", got.fault, got.fault.Data)
	case string(mcp.Lookup(got.result, "isError")) == "true":
		return got, fmt.Errorf("an error: %s", got.result)
	}
	return got, nil
}

// said is the text of a result: of its first block, message or content.
func said(result []byte) string {
	for _, list := range []string{"content", "contents", "messages"} {
		items := mcp.Lookup(result, list)
		for e := range mcp.Elements(items) {
			if text, ok := mcp.LookupString(e.Of(items), "text"); ok {
				return text
			}
			if text, ok := mcp.LookupString(e.Of(items), "content", "text"); ok {
				return text
			}
		}
	}
	return ""
}

// is compares the bytes of a value.
func is(what string, got []byte, want string) error {
	if string(got) != want {
		return fmt.Errorf("%s is %s, not %s", what, got, want)
	}
	return nil
}

const odd = `,"n":9223372036854775807,"u":18446744073709551615,"s":-9223372036854775808,"z":{"b":1,"a":[1e2,2.50]},"e":"\u00e9\/ \ud83d\ude00"`

func plainCall(ctx context.Context, c *cell) error {
	args := c.arguments(odd)
	params := `{"com.example/own":1,"name":"` + c.to.tool("echo") + `","arguments":` + args + `,"_meta":{"com.example/kept":9007199254740993}}`
	got, err := c.good(c.client.do(ctx, mcp.MethodToolsCall, []byte(params)))
	if err != nil {
		return err
	}
	err = errors.Join(
		is("the text", []byte(said(got.result)), args),
		is("an unknown member", mcp.Lookup(got.result, "com.example/unknown"), `{"z":1,"a":18446744073709551615}`),
		is("an unknown member of _meta", mcp.Lookup(got.result, "_meta", "com.example/back"), "-9223372036854775808"),
		is("a member of the client's _meta", mcp.Lookup(got.result, "_meta", "com.example/kept"), "9007199254740993"),
	)
	if c.down.rev >= mcp.V20250618 && c.to.kind.rev >= mcp.V20250618 {
		err = errors.Join(err, is("structuredContent", mcp.Lookup(got.result, "structuredContent"), `{"n":9223372036854775807,"args":`+args+`}`))
	}
	return err
}

func serverError(ctx context.Context, c *cell) error {
	got, err := c.client.do(ctx, mcp.MethodToolsCall, c.params("broken", ""))
	if err != nil {
		return err
	}
	if got.fault == nil || got.fault.Code != -31999 || got.fault.Message != "A fault of its own" {
		return fmt.Errorf("not the server's error: %+v %s", got.fault, got.result) //nolint:errorlint // it is what is looked at
	}
	return is("the data of the error", got.fault.Data, `{"n":18446744073709551615}`)
}

func readAndGet(ctx context.Context, c *cell) error {
	uri := c.to.uri("res://host/fancy")
	got, err := c.good(c.client.do(ctx, mcp.MethodRead, []byte(`{"uri":"`+uri+`"}`)))
	if err != nil {
		return err
	}
	err = errors.Join(
		is("what was read", []byte(said(got.result)), "res://host/fancy"),
		is("its URI", first(got.result, "contents", "uri"), `"`+uri+`"`),
	)
	if c.down.modern() {
		err = errors.Join(err, is("cacheScope", mcp.Lookup(got.result, "cacheScope"), `"private"`))
	}
	prompt, err2 := c.good(c.client.do(ctx, mcp.MethodPromptsGet, []byte(`{"name":"`+c.to.tool("fancy")+`"}`)))
	if err2 != nil {
		return errors.Join(err, err2)
	}
	return errors.Join(err, is("the prompt", []byte(said(prompt.result)), "fancy"))
}

// first returns a member of the first item of a list.
func first(result []byte, list, member string) []byte {
	items := mcp.Lookup(result, list)
	for e := range mcp.Elements(items) {
		return mcp.Lookup(e.Of(items), member)
	}
	return nil
}

func progress(ctx context.Context, c *cell) error {
	token := `"tok ` + c.id + `"`
	if len(c.id)%2 == 0 {
		token = "9007199254740993" + strings.TrimPrefix(c.id, "c")
	}
	params := mcp.SetMember(c.params("progress", ""), "_meta", []byte(`{"progressToken":`+token+`}`))
	got, err := c.good(c.client.do(ctx, mcp.MethodToolsCall, params))
	if err != nil {
		return err
	}
	if err := c.client.barrier(ctx); err != nil { // nothing comes after
		return err
	}
	return c.reported(got.last, 3)
}

// reported holds the progress of a request to what the server reported; order,
// tokens and what comes too late are the client's to notice.
func (c *cell) reported(req *request, times int) error {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	if len(req.notes) != times {
		return fmt.Errorf("%d reports of progress, not %d: %s", len(req.notes), times, raws(req.notes))
	}
	for i, note := range req.notes {
		if err := errors.Join(
			is("progress", note.Param("progress"), fmt.Sprint(i+1)),
			is("total", note.Param("total"), fmt.Sprint(times)),
			is("the token", note.Param(mcp.MetaProgressToken), req.token),
		); err != nil {
			return err
		}
	}
	return nil
}

func raws(all []mcp.Message) string {
	var out []string
	for _, msg := range all {
		out = append(out, string(msg.Raw))
	}
	return strings.Join(out, "\n")
}

func cancellation(ctx context.Context, c *cell) error {
	req, err := c.client.start(mcp.MethodToolsCall, c.client.meta(c.params("wait", ""), ""))
	if err != nil {
		return err
	}
	if _, err := c.await(ctx, "waiting"); err != nil {
		return err
	}
	if err := c.client.withdraw(req); err != nil {
		return err
	}
	signal, err := c.await(ctx, "cancelled")
	if err != nil {
		return err
	}
	want := errWithdrawn
	if c.to.kind.modern() && c.to.kind.streams() {
		want = errHungUp
	}
	if c.client.kind.streams() { // its HTTP exchange ends without an answer
		select {
		case <-req.done:
		case <-ctx.Done():
			return errors.New("the stream of a cancelled request stays open")
		}
	}
	return errors.Join(is("the signal to the server", []byte(signal), want.Error()), c.client.barrier(ctx))
}

func logging(ctx context.Context, c *cell) error {
	meta := ""
	if c.down.modern() {
		meta = `"` + mcp.MetaLogLevel + `":"warning"`
	} else if _, err := c.good(c.client.do(ctx, mcp.MethodSetLevel, []byte(`{"level":"warning"}`))); err != nil {
		return err
	}
	params := c.params("log", "")
	if meta != "" {
		params = mcp.SetMember(params, "_meta", []byte("{"+meta+"}"))
	}
	if _, err := c.good(c.client.do(ctx, mcp.MethodToolsCall, params)); err != nil {
		return err
	}
	if err := c.client.barrier(ctx); err != nil {
		return err
	}
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	var got []string
	for _, note := range c.client.aside {
		if id, _ := mcp.LookupString(note.Param("data"), "cell"); note.Method == mcp.NotifyMessage && id == c.id {
			got = append(got, string(note.Param("level"))+" "+string(note.Param("logger")))
		}
	}
	name := ` "` + c.to.namespace() + `/db"`
	if want := []string{`"warning"` + name, `"error"` + name}; !slices.Equal(got, want) {
		return fmt.Errorf("log messages %q, not %q", got, want)
	}
	return nil
}

func completion(ctx context.Context, c *cell) error {
	for _, ref := range [][2]string{
		{`{"type":"ref/prompt","name":"` + c.to.tool("ask") + `"}`, `ask=pre`},
		{`{"type":"ref/resource","uri":"` + c.to.uri("res://host/{name}") + `"}`, `res://host/{name}=pre`},
	} {
		got, err := c.good(c.client.do(ctx, mcp.MethodComplete, []byte(`{"ref":`+ref[0]+`,"argument":{"name":"script","value":"pre"}}`)))
		if err != nil {
			return err
		}
		if err := is("the proposals", mcp.Lookup(got.result, "completion", "values"), `[`+string(mcp.Quote(ref[1]))+`]`); err != nil {
			return err
		}
	}
	return nil
}

func headers(ctx context.Context, c *cell) error {
	got, err := c.call(ctx, "header", `,"region":"é ","count":42`)
	if err != nil {
		return err
	}
	want := ""
	if c.to.kind.modern() && c.to.kind.streams() {
		want = "Mcp-Param-Count Mcp-Param-Region"
	}
	return is("the headers", []byte(said(got.result)), want)
}

func apps(ctx context.Context, c *cell) error {
	uri := c.to.uri("ui://app/main.html")
	tool, err := c.item(ctx, mcp.Tool, c.to.tool("app"))
	if err != nil {
		return err
	}
	listed, err := c.item(ctx, mcp.Resource, uri)
	if err != nil {
		return err
	}
	if err := errors.Join(
		is("_meta.ui.resourceUri", mcp.Lookup(tool, "_meta", "ui", "resourceUri"), `"`+uri+`"`),
		is("the rest of _meta", mcp.Lookup(tool, "_meta", "com.example/kept"), "1"),
		is("the type of the resource", mcp.Lookup(listed, "mimeType"), `"text/html;profile=mcp-app"`),
	); err != nil {
		return err
	}
	got, err := c.good(c.client.do(ctx, mcp.MethodRead, []byte(`{"uri":"`+uri+`"}`)))
	if err != nil {
		return err
	}
	return errors.Join(is("the app", []byte(said(got.result)), "<html></html>"), is("its URI", first(got.result, "contents", "uri"), `"`+uri+`"`))
}
