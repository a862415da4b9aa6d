//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
	"github.com/toolgate/toolgate/internal/testwait"
)

// target says where a driver connects. It is the argument of the JavaScript and
// Python drivers, word for word.
type target struct {
	Transport string            `json:"transport"` // http, sse or stdio
	Era       string            `json:"era"`       // legacy or modern
	URL       string            `json:"url,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Label     string            `json:"label"` // makes labels and tool names of this run its own

	// With links a driver makes calls in which it is asked something, instead of
	// running the script; see questions_test.go.
	Links  []link `json:"links,omitempty"`
	AtOnce int    `json:"atOnce,omitempty"` // lanes of a link
	Secret string `json:"secret,omitempty"` // with which the client answers
	Key    string `json:"key,omitempty"`    // of the link: an API key, sent as a bearer token

	person *person // who answers in a Go client
}

// report is what a driver prints at its end.
type report struct {
	Client   string           `json:"client"`
	Version  string           `json:"version"`
	Protocol string           `json:"protocol"`
	Error    string           `json:"error"` // why the script could not run to its end
	Checks   map[string]check `json:"checks"`

	Answers   map[string]returned `json:"answers,omitempty"`   // of each call of the links
	Protocols []string            `json:"protocols,omitempty"` // of each link
	Asked     []string            `json:"asked,omitempty"`     // all that the client was asked
}

type check struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// steps are the checks of a complete report, in the order of the script.
var steps = []string{"list", "call_int64", "read_resource", "get_prompt", "progress", "cancel", "list_changed"}

// bigInt is 2^53 + 1, the first integer that a double cannot hold.
const bigInt = "9007199254740993"

// adapter is a connected Go client, as far as the script needs it. Lists are
// complete; names and URIs are returned as listed.
type adapter interface {
	Tools(context.Context) ([]string, error)
	Prompts(context.Context) ([]string, error)
	Resources(context.Context) ([]string, error)
	Templates(context.Context) ([]string, error)
	// Call calls a tool; onProgress may be nil.
	Call(ctx context.Context, name, args string, onProgress func(float64)) (callResult, error)
	Read(ctx context.Context, uri string) (string, error)
	Prompt(ctx context.Context, name string, args map[string]string) (string, error)
	// Watch returns a channel that receives on a change of the tool list.
	Watch(context.Context) (<-chan struct{}, error)
	Protocol() string
	// Ordered reports whether the library calls onProgress before Call returns.
	// Where it does not, progress after the result proves nothing.
	Ordered() bool
}

// callResult is a tool result: its first text, and its structured content as
// the library hands it to its user, written as JSON again.
type callResult struct {
	Text       string
	Structured string
}

// script runs every step against a, as node/script.mjs does.
type script struct {
	a     adapter
	label string
	names struct{ echo, slow, count, change, greet, text, item string }
}

func runScript(ctx context.Context, a adapter, label string) map[string]check {
	s := &script{a: a, label: label}
	checks := map[string]check{}
	for _, step := range []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"list", s.list},
		{"call_int64", s.callInt64},
		{"read_resource", s.readResource},
		{"get_prompt", s.getPrompt},
		{"progress", s.progress},
		{"cancel", s.cancel},
		{"list_changed", s.listChanged},
	} {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		detail, err := step.run(ctx)
		cancel()
		if err != nil {
			detail = err.Error()
		}
		checks[step.name] = check{OK: err == nil, Detail: detail}
		if step.name == "list" && err != nil {
			break // nothing to call
		}
	}
	return checks
}

// named finds the entry that is name, with whatever prefix a gateway gives it.
func named(items []string, err error, name string) (string, error) {
	if err != nil {
		return "", err
	}
	for _, item := range items {
		if item == name || strings.HasSuffix(item, "__"+name) || strings.HasSuffix(item, "+"+name) {
			return item, nil
		}
	}
	return "", fmt.Errorf("no %s among %s", name, strings.Join(items, ", "))
}

// list finds everything that the other steps use. A gateway lists a server once
// it has started, so a list that lacks something is asked for again for a while.
func (s *script) list(ctx context.Context) (string, error) {
	var err error
	if !testwait.Within(10*time.Second, func() bool {
		err = s.find(ctx)
		return err == nil || ctx.Err() != nil
	}) || err != nil {
		return "", err
	}
	return "tools, prompt, resource and template", nil
}

func (s *script) find(ctx context.Context) error {
	tools, err := s.a.Tools(ctx)
	var errs []error
	set := func(into *string, items []string, err error, name string) {
		found, err := named(items, err, name)
		*into = found
		errs = append(errs, err)
	}
	set(&s.names.echo, tools, err, "echo")
	set(&s.names.slow, tools, err, "slow")
	set(&s.names.count, tools, err, "cancelled_count")
	set(&s.names.change, tools, err, "change")
	prompts, err := s.a.Prompts(ctx)
	set(&s.names.greet, prompts, err, "greet")
	resources, err := s.a.Resources(ctx)
	set(&s.names.text, resources, err, fixture.ResourceURI)
	templates, err := s.a.Templates(ctx)
	set(&s.names.item, templates, err, fixture.TemplateURI)
	return errors.Join(errs...)
}

var echoedN = regexp.MustCompile(`"n":\s*(-?[0-9.eE+]+)`)

func (s *script) callInt64(ctx context.Context) (string, error) {
	got, err := s.a.Call(ctx, s.names.echo, `{"n":`+bigInt+`,"note":"<é>"}`, nil)
	if err != nil {
		return "", err
	}
	if m := echoedN.FindStringSubmatch(got.Text); m == nil || m[1] != bigInt {
		return "", fmt.Errorf("argument arrived as %v in %q", m, got.Text)
	}
	if m := echoedN.FindStringSubmatch(got.Structured); m == nil || m[1] != bigInt {
		return "", fmt.Errorf("argument and text exact, structured content reads %s", got.Structured)
	}
	return "argument, text and structured content exact", nil
}

func (s *script) readResource(ctx context.Context) (string, error) {
	text, err := s.a.Read(ctx, s.names.text)
	if err != nil {
		return "", err
	}
	item, err := s.a.Read(ctx, strings.Replace(s.names.item, "{id}", "42", 1))
	if err != nil {
		return "", err
	}
	if text != fixture.ResourceText || item != "item 42" {
		return "", fmt.Errorf("read %q and %q", text, item)
	}
	return "resource and template", nil
}

func (s *script) getPrompt(ctx context.Context) (string, error) {
	got, err := s.a.Prompt(ctx, s.names.greet, map[string]string{"name": "Ada"})
	if err != nil {
		return "", err
	}
	if got != "Hello, Ada!" {
		return "", fmt.Errorf("got %q", got)
	}
	return got, nil
}

func (s *script) progress(ctx context.Context) (string, error) {
	var mu sync.Mutex
	var seen []float64
	var done bool
	late := 0
	got, err := s.a.Call(ctx, s.names.slow, `{"label":"`+s.label+`_p","ms":400}`, func(v float64) {
		mu.Lock()
		defer mu.Unlock()
		if done {
			late++
		}
		seen = append(seen, v)
	})
	mu.Lock()
	done = true
	mu.Unlock()
	if err != nil {
		return "", err
	}
	<-time.After(50 * time.Millisecond) // for what comes late
	mu.Lock()
	defer mu.Unlock()
	rising := true
	if !s.a.Ordered() {
		slices.Sort(seen)
	}
	for i := range seen {
		rising = rising && (i == 0 || seen[i] > seen[i-1])
	}
	if len(seen) < 2 || !rising || late > 0 && s.a.Ordered() || got.Text != "done" {
		return "", fmt.Errorf("progress %v, %d late, result %q", seen, late, got.Text)
	}
	return "in order, before the result", nil
}

func (s *script) cancel(ctx context.Context) (string, error) {
	callCtx, abort := context.WithCancel(ctx)
	defer abort()
	ended := make(chan error, 1)
	go func() {
		_, err := s.a.Call(callCtx, s.names.slow, `{"label":"`+s.label+`_c","ms":20000}`, func(float64) {})
		ended <- err
	}()
	select {
	case err := <-ended:
		return "", fmt.Errorf("the call ended before it was cancelled: %w", err)
	case <-time.After(400 * time.Millisecond):
	}
	abort()
	select {
	case err := <-ended:
		if err == nil {
			return "", errors.New("the cancelled call has a result")
		}
	case <-time.After(5 * time.Second):
		return "", errors.New("the cancelled call did not end within 5 s")
	}
	var counts struct{ Cancelled, Running int }
	var err error
	if !testwait.Within(5*time.Second, func() bool {
		var got callResult
		if got, err = s.a.Call(ctx, s.names.count, `{"label":"`+s.label+`_c"}`, nil); err == nil {
			err = json.Unmarshal([]byte(got.Text), &counts)
		}
		return err == nil && counts.Cancelled == 1 && counts.Running == 0
	}) {
		return "", fmt.Errorf("the server counts %+v (%w)", counts, err)
	}
	return "seen by the server", nil
}

func (s *script) listChanged(ctx context.Context) (string, error) {
	changed, err := s.a.Watch(ctx)
	if err != nil {
		return "", err
	}
	added := "added_" + s.label
	if _, err := s.a.Call(ctx, s.names.change, `{"name":"`+added+`"}`, nil); err != nil {
		return "", err
	}
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
		return "", errors.New("the list change: nothing within 5000 ms")
	}
	if !testwait.Within(3*time.Second, func() bool {
		tools, lerr := s.a.Tools(ctx)
		_, err = named(tools, lerr, added)
		return err == nil
	}) {
		return "", err
	}
	return "told, and the new tool is listed", nil
}
