// Package server asks an interceptor that an MCP server hosts, by the draft SEP-2624.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// Methods of the draft.
const (
	methodList   = "interceptors/list"
	methodInvoke = "interceptor/invoke"
)

const (
	// declaredTime is how long what a server declares counts before it is listed again.
	declaredTime = time.Minute
	// maxPages bounds the pages of a list.
	maxPages = 10
)

// Caller sends a request to a server of the configuration, on the gateway's own
// connection.
type Caller interface {
	Request(ctx context.Context, server, method string, params []byte) (result []byte, err error)
}

// Server is an [intercept.Interceptor] that a server hosts under the name of the
// settings. Make it with [New]; it is safe for concurrent use.
type Server struct {
	set intercept.Settings
	by  Caller

	mu    sync.Mutex
	known *declaration
	until time.Time
}

// New returns an interceptor of some settings.
func New(set intercept.Settings, by Caller) *Server { return &Server{set: set, by: by} }

// declaration is an interceptor as its server lists it.
type declaration struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Hooks []struct {
		Events []string `json:"events"`
		Phase  string   `json:"phase"`
	} `json:"hooks"`
}

// hooks reports whether the interceptor wants to see an event in a phase.
func (d *declaration) hooks(event, phase string) bool {
	for _, h := range d.Hooks {
		if h.Phase == phase && (slices.Contains(h.Events, "*") || slices.Contains(h.Events, event)) {
			return true
		}
	}
	return false
}

// declared returns what the server lists of the interceptor.
func (s *Server) declared(ctx context.Context) (*declaration, error) {
	s.mu.Lock()
	known, until := s.known, s.until
	s.mu.Unlock()
	if known != nil && time.Now().Before(until) {
		return known, nil
	}
	d, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	if d.Type != s.set.Type {
		return nil, fmt.Errorf("the server %s says that it is a %.20q, and the configuration says %s", s.set.Server, d.Type, s.set.Type)
	}
	s.mu.Lock()
	s.known, s.until = d, time.Now().Add(declaredTime)
	s.mu.Unlock()
	return d, nil
}

// list finds the interceptor in the list of its server.
func (s *Server) list(ctx context.Context) (*declaration, error) {
	params := []byte("{}")
	for range maxPages {
		result, err := s.by.Request(ctx, s.set.Server, methodList, params)
		if err != nil {
			return nil, fmt.Errorf("list the interceptors of %s: %w", s.set.Server, err)
		}
		var page struct {
			Interceptors []declaration `json:"interceptors"`
			NextCursor   string        `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("read the interceptors of %s: %w", s.set.Server, err)
		}
		for i := range page.Interceptors {
			if page.Interceptors[i].Name == s.set.Name {
				return &page.Interceptors[i], nil
			}
		}
		if page.NextCursor == "" {
			break
		}
		params = mcp.SetMember([]byte("{}"), "cursor", mcp.Quote(page.NextCursor))
	}
	return nil, fmt.Errorf("the server %s has no interceptor %s", s.set.Server, s.set.Name)
}

// phases are the phases in the words of the draft.
var phases = map[intercept.Phase]string{intercept.Before: "request", intercept.After: "response", intercept.List: "response"}

// Intercept implements [intercept.Interceptor]. What the interceptor does not want to see
// passes.
func (s *Server) Intercept(ctx context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
	d, err := s.declared(ctx)
	if err != nil {
		return intercept.Verdict{}, err
	}
	if !d.hooks(inv.Method, phases[inv.Phase]) {
		return intercept.Verdict{Effect: intercept.Pass}, nil
	}
	result, err := s.by.Request(ctx, s.set.Server, methodInvoke, s.question(ctx, inv))
	if err != nil {
		return intercept.Verdict{}, fmt.Errorf("ask %s at %s: %w", s.set.Name, s.set.Server, err)
	}
	if s.set.Type == intercept.Mutation {
		return mutated(inv, result)
	}
	return validated(result)
}

// question is the params of an invocation.
func (s *Server) question(ctx context.Context, inv *intercept.Invocation) []byte {
	q := mcp.AppendQuote([]byte(`{"name":`), s.set.Name)
	q = mcp.AppendQuote(append(q, `,"event":`...), inv.Method)
	q = mcp.AppendQuote(append(q, `,"phase":`...), phases[inv.Phase])
	q = append(append(q, `,"payload":`...), payload(inv)...)
	if end, ok := ctx.Deadline(); ok {
		q = fmt.Appendf(q, `,"timeoutMs":%d`, max(time.Until(end).Milliseconds(), 1))
	}
	q = mcp.AppendQuote(append(q, `,"context":{"principal":{"type":"user","id":`...), inv.Principal)
	q = mcp.AppendQuote(append(q, `},"timestamp":`...), time.Now().UTC().Format(time.RFC3339Nano))
	return append(q, "}}"...)
}

// listKeys are the members of lists, by their methods.
var listKeys = map[string]string{
	mcp.Tool.ListMethod(): mcp.Tool.ListKey(), mcp.Prompt.ListMethod(): mcp.Prompt.ListKey(),
	mcp.Resource.ListMethod(): mcp.Resource.ListKey(), mcp.Template.ListMethod(): mcp.Template.ListKey(),
}

// payload is what the interceptor sees: the request with its method, the result, or a list
// with one definition.
func payload(inv *intercept.Invocation) []byte {
	switch inv.Phase {
	case intercept.After:
		return inv.Payload
	case intercept.List:
		return append(append(append(mcp.AppendQuote([]byte("{"), listKeys[inv.Method]), ":["...), inv.Payload...), "]}"...)
	case intercept.Before:
	}
	params := inv.Payload
	if named(inv.Method) {
		params = append(mcp.AppendQuote([]byte(`{"name":`), inv.Name), `,"arguments":`...)
		params = append(append(params, inv.Payload...), '}')
	}
	p := mcp.AppendQuote([]byte(`{"method":`), inv.Method)
	return append(append(append(p, `,"params":`...), params...), '}')
}

// named reports whether a method calls something by a name and with arguments.
func named(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet
}

// validated reads the answer of a validation. Only an error stops the call (SEP-2624,
// Execution Model).
func validated(result []byte) (intercept.Verdict, error) {
	var a struct {
		Valid    *bool  `json:"valid"`
		Severity string `json:"severity"`
		Messages []struct {
			Path    string `json:"path"`
			Message string `json:"message"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(result, &a); err != nil || a.Valid == nil {
		return intercept.Verdict{}, errors.New("its answer does not say whether the call is valid")
	}
	var why []string
	for _, m := range a.Messages {
		if m.Path != "" {
			m.Message = m.Path + ": " + m.Message
		}
		why = append(why, m.Message)
	}
	v := intercept.Verdict{Effect: intercept.Pass, Reason: intercept.Shortened(strings.Join(why, "; "))}
	if !*a.Valid && a.Severity != "info" && a.Severity != "warn" {
		v.Effect = intercept.Deny
	}
	return v, nil
}

// mutated reads the answer of a mutation.
func mutated(inv *intercept.Invocation, result []byte) (intercept.Verdict, error) {
	v := intercept.Verdict{Effect: intercept.Pass}
	switch string(mcp.Lookup(result, "modified")) {
	case "false":
		return v, nil
	case "true":
	default:
		return intercept.Verdict{}, errors.New("its answer does not say whether it has changed anything")
	}
	changed := mcp.Lookup(result, "payload")
	switch {
	case !mcp.IsObject(changed):
		return intercept.Verdict{}, errors.New("its answer has no payload, though it has changed it")
	case inv.Phase == intercept.List:
		return intercept.Verdict{}, errors.New("it changes a definition, which it may only refuse")
	case inv.Phase == intercept.After:
		v.Payload = changed
	case !named(inv.Method):
		return intercept.Verdict{}, fmt.Errorf("it changes a request %s, which has no arguments", inv.Method)
	default:
		args := mcp.Lookup(changed, "params", "arguments")
		was := mcp.RemoveMember(mcp.Lookup(payload(inv), "params"), "arguments")
		now := mcp.RemoveMember(mcp.Lookup(changed, "params"), "arguments")
		method, _ := mcp.LookupString(changed, "method")
		if args == nil || method != inv.Method || mcp.Hash(was) != mcp.Hash(now) {
			return intercept.Verdict{}, errors.New("it changes more than the arguments")
		}
		v.Payload = args
	}
	return v, nil
}
