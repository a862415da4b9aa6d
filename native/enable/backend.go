package enable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Name is the backend's key and its namespace.
const Name = "toolgate"

// The tools.
const (
	Find   = "find_servers"
	Add    = "add_server"
	Remove = "remove_server"
)

// Template is a server of the operator's list, which agents may add.
type Template struct {
	Name string `json:"name"`
	Offer
}

// Added is a server that was added.
type Added struct {
	Server    string            `json:"server"` // its key, for remove_server
	Offer     string            `json:"offer"`
	Arguments map[string]string `json:"arguments,omitempty"`
	// Prefix begins the names of its tools.
	Prefix string `json:"prefix"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Catalog has the templates and the servers that were added from them. It is safe for
// concurrent use and limits its own waits. A [toolapi.Problem] is for the caller; every other
// error is internal.
type Catalog interface {
	// Offers returns the servers that the caller of the context may add.
	Offers(ctx context.Context) ([]Template, error)
	// Added returns the servers that a principal has added.
	Added(ctx context.Context, principal string) ([]Added, error)
	Add(ctx context.Context, principal, offer string, arguments map[string]string) (Added, error)
	Remove(ctx context.Context, principal, server string) error
}

// Unknown returns the answer for a server that is not on the caller's list, whether
// it exists or not.
func Unknown(name string) toolapi.Problem {
	return toolapi.Problem(fmt.Sprintf("There is no server %q on the list; find_servers returns what there is.", cut(name)))
}

// Backend serves the tools. It has no connections and is always ready.
type Backend struct {
	catalog Catalog
	tools   Tools
	stats   Stats
	results Results
	listing *mcp.Listing
}

// New returns the backend of a catalog of servers and of one of tools. A nil one has no
// tools in the list.
func New(c Catalog, t Tools) *Backend {
	l := &mcp.Listing{
		Era: mcp.Modern, Version: mcp.V20260728, Capabilities: []byte(`{"tools":{}}`), FetchedAt: time.Now(),
		Items: map[mcp.Kind][]mcp.Item{}, TTL: map[mcp.Kind]time.Duration{mcp.Tool: time.Hour},
	}
	b := &Backend{catalog: c, tools: t, listing: l}
	for _, some := range []map[string]string{serverTools, toolTools} {
		for name, raw := range some {
			if b.has(name) {
				l.Items[mcp.Tool] = append(l.Items[mcp.Tool], mcp.Item{Key: name, Raw: []byte(raw)})
			}
		}
	}
	slices.SortFunc(l.Items[mcp.Tool], func(a, b mcp.Item) int { return strings.Compare(a.Key, b.Key) })
	return b
}

// has tells whether a tool is in the list.
func (b *Backend) has(name string) bool {
	if name == ToolStats {
		return b.stats != nil
	}
	if name == ReadResult {
		return b.results != nil
	}
	if toolTools[name] != "" {
		return b.tools != nil
	}
	return b.catalog != nil && serverTools[name] != ""
}

// serverTools are the definitions of the tools for servers, by name.
var serverTools = map[string]string{
	Find: `{"name":"find_servers","title":"Find servers","description":"List the servers that can be added with add_server, with the values that their arguments may have, and those that you have added.",` +
		`"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Words to look for in names and descriptions; leave it out for all"}},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
	Add: `{"name":"add_server","title":"Add a server","description":"Add a server of the list that find_servers returns. Its tools appear under the prefix in the answer, for you alone.",` +
		`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Name of the server in the list"},` +
		`"arguments":{"type":"object","description":"A value for each of its arguments, out of those that the list has for it","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`,
	Remove: `{"name":"remove_server","title":"Remove a server","description":"Remove a server that you have added.",` +
		`"inputSchema":{"type":"object","properties":{"server":{"type":"string","description":"The server, as add_server and find_servers name it"}},"required":["server"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}}`,
}

// Name returns the backend's key.
func (b *Backend) Name() string { return Name }

// Listing returns the tools.
func (b *Backend) Listing() (*mcp.Listing, mcp.Status) {
	return b.listing, mcp.Status{State: mcp.Ready, Since: b.listing.FetchedAt}
}

// Probe always succeeds.
func (b *Backend) Probe(context.Context) error { return nil }

// Call runs a tool.
func (b *Backend) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Method != mcp.MethodToolsCall {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", call.Method)}, nil
	}
	name, _ := mcp.LookupString(call.Params, "name")
	got, err := b.run(ctx, call.Principal, name, mcp.Lookup(call.Params, "arguments"))
	if problem, ok := errors.AsType[toolapi.Problem](err); ok {
		return answer(string(problem), nil, true), nil
	}
	if err != nil {
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Delivered: true, Err: err}
	}
	if text, ok := got.(string); ok {
		return answer(text, nil, false), nil
	}
	structured, err := json.Marshal(got)
	if err != nil {
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Delivered: true, Err: err}
	}
	return answer(string(structured), structured, false), nil
}

func answer(text string, structured []byte, failed bool) mcp.Answer {
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

// run runs a tool and returns what it answers.
func (b *Backend) run(ctx context.Context, principal, name string, args []byte) (any, error) {
	if args == nil {
		args = []byte("{}")
	}
	if !b.has(name) {
		return nil, toolapi.Problem(fmt.Sprintf("There is no tool %q.", cut(name)))
	}
	switch name {
	case ToolStats:
		return b.runStats(ctx, args)
	case ReadResult:
		text, err := b.results(ctx, args)
		if err != nil {
			return nil, toolapi.Problem(err.Error())
		}
		return text, nil
	case FindTemplates, Register, RemoveTool:
		return b.runTools(ctx, principal, name, args)
	case Find:
		query, err := only(args, "query")
		if err != nil {
			return nil, err
		}
		return b.find(ctx, principal, query)
	case Add:
		return b.add(ctx, principal, args)
	case Remove:
		server, err := only(args, "server")
		if err != nil {
			return nil, err
		}
		if server == "" {
			return nil, toolapi.Problem(`Say which server to remove: {"server": "..."}.`)
		}
		if err := b.catalog.Remove(ctx, principal, server); err != nil {
			return nil, err
		}
		return map[string]string{"removed": server}, nil
	}
	return nil, fmt.Errorf("the tool %s is listed and does nothing", name)
}

// found is what find_servers answers.
type found struct {
	Servers []Template `json:"servers"`
	Added   []Added    `json:"added"`
}

func (b *Backend) find(ctx context.Context, principal, query string) (any, error) {
	added, err := b.catalog.Added(ctx, principal)
	if err != nil {
		return nil, err
	}
	out := found{Servers: []Template{}, Added: append([]Added{}, added...)}
	offers, err := b.catalog.Offers(ctx)
	if err != nil {
		return nil, err
	}
	for _, offer := range offers {
		if matches(query, offer.Name+" "+offer.Description) {
			out.Servers = append(out.Servers, offer)
		}
	}
	return out, nil
}

func (b *Backend) add(ctx context.Context, principal string, args []byte) (any, error) {
	name, given, err := readAdd(args)
	if err != nil {
		return nil, err
	}
	offers, err := b.catalog.Offers(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(offers, func(o Template) bool { return o.Name == name })
	if i < 0 {
		return nil, Unknown(name)
	}
	if err := offers[i].check(given); err != nil {
		return nil, err
	}
	return b.catalog.Add(ctx, principal, name, given)
}

// check holds arguments against the enumerations of the offer.
func (o *Template) check(given map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(o.Arguments)) {
		value, ok := given[name]
		if !ok {
			return toolapi.Problem(fmt.Sprintf("The argument %s is missing; it is one of %s.", name, strings.Join(o.Arguments[name], ", ")))
		}
		if !slices.Contains(o.Arguments[name], value) {
			return toolapi.Problem(fmt.Sprintf("The argument %s is %q and must be one of %s.", name, cut(value), strings.Join(o.Arguments[name], ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := o.Arguments[name]; !ok {
			return toolapi.Problem(fmt.Sprintf("The server %s has no argument %q.", o.Name, cut(name)))
		}
	}
	return nil
}

// readAdd reads the arguments of add_server.
func readAdd(args []byte) (name string, given map[string]string, err error) {
	given = make(map[string]string)
	for m := range mcp.Members(args) {
		value := m.Value.Of(args)
		switch key, _ := mcp.Unquote(m.Key(args)); key {
		case "name":
			if name, err = mcp.Unquote(value); err != nil {
				return "", nil, toolapi.Problem("The name is a text.")
			}
		case "arguments":
			if !mcp.IsObject(value) {
				return "", nil, toolapi.Problem("The arguments are an object of texts.")
			}
			for a := range mcp.Members(value) {
				k, _ := mcp.Unquote(a.Key(value))
				if given[k], err = mcp.Unquote(a.Value.Of(value)); err != nil {
					return "", nil, toolapi.Problem("The arguments are an object of texts.")
				}
			}
		default:
			return "", nil, toolapi.Problem(fmt.Sprintf("There is no argument %q; there are name and arguments.", cut(key)))
		}
	}
	return name, given, nil
}

// only reads arguments of which there is at most one, a text; empty when it is
// not there.
func only(args []byte, known string) (text string, err error) {
	for m := range mcp.Members(args) {
		if key, _ := mcp.Unquote(m.Key(args)); key != known {
			return "", toolapi.Problem(fmt.Sprintf("There is no argument %q; there is %s.", cut(key), known))
		}
		if text, err = mcp.Unquote(m.Value.Of(args)); err != nil {
			return "", toolapi.Problem(fmt.Sprintf("The argument %s is a text.", known))
		}
	}
	return text, nil
}

// cut shortens what a caller sent for an answer.
func cut(text string) string {
	if len(text) > 100 {
		return strings.ToValidUTF8(text[:100], "") + "..."
	}
	return text
}
