//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
	"github.com/toolgate/toolgate/internal/testwait"
)

// inspector is the command line of the official Inspector: one process and one
// connection per command.
type inspector struct {
	script string // of the command line client
	config string
	home   string
}

// runInspector runs the script with the Inspector's command line. What it has no
// command for is reported as such after looking for one in its own help.
func runInspector(ctx context.Context, t target) report {
	r := report{Client: "inspector", Checks: map[string]check{}}
	dir, err := os.MkdirTemp("", "tginsp")
	if err != nil {
		r.Error = fmt.Sprintf("making a folder: %v", err)
		return r
	}
	defer os.RemoveAll(dir)
	in, err := newInspector(dir, t)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	s := &inspection{in: in, t: t}
	if r.Protocol, err = s.protocol(ctx); err != nil {
		r.Error = err.Error()
		return r
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"list", s.list},
		{"call_int64", s.callInt64},
		{"read_resource", s.readResource},
		{"get_prompt", s.getPrompt},
		{"progress", s.noCommandFor("progress")},
		{"cancel", s.cancel},
		{"list_changed", s.noCommandFor("list_changed", "list-changed", "subscriptions", "--watch", "--follow")},
	} {
		ctx, cancel := context.WithTimeout(ctx, driverTimeout)
		detail, err := step.run(ctx)
		cancel()
		if err != nil {
			detail = err.Error()
		}
		r.Checks[step.name] = check{OK: err == nil, Detail: detail}
		if step.name == "list" && err != nil {
			break
		}
	}
	return r
}

// newInspector returns the command line with a configuration in dir.
func newInspector(dir string, t target) (*inspector, error) {
	in := &inspector{
		script: filepath.Join(lab.cache, "node", "node_modules", ".bin", "mcp-inspector"),
		config: filepath.Join(dir, "config.json"),
		home:   dir,
	}
	server := object{"protocolEra": t.Era}
	switch t.Transport {
	case "stdio":
		server["command"], server["args"], server["env"] = t.Command, t.Args, t.Env
	case "sse":
		server["type"], server["url"] = "sse", t.URL
	default:
		server["type"], server["url"] = "http", t.URL
	}
	data, err := json.Marshal(object{"mcpServers": object{"gw": server}})
	if err == nil {
		err = os.WriteFile(in.config, data, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the Inspector's configuration: %w", err)
	}
	return in, nil
}

// run makes one command and returns the result that it prints.
func (in *inspector) run(ctx context.Context, args ...string) (json.RawMessage, error) {
	cmd := in.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("inspector %s: %w: %s", strings.Join(args, " "), err, newest(strings.TrimSpace(stderr.String()+stdout.String()), 1000))
	}
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		return nil, fmt.Errorf("inspector %s printed %.300q: %w", strings.Join(args, " "), stdout.String(), err)
	}
	return out.Result, nil
}

func (in *inspector) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{in.script, "--cli", "--config", in.config, "--server", "gw", "--stored-auth-only", "--format", "json"}, args...)
	cmd := exec.CommandContext(ctx, lab.node.path, all...)
	cmd.Env = []string{"PATH=" + filepath.Dir(lab.node.path) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + in.home, "LANG=C.UTF-8"}
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd)
	return cmd
}

// inspection is one run of the script.
type inspection struct {
	in    *inspector
	t     target
	names struct{ echo, slow, count, greet, text, item string }
}

func (s *inspection) protocol(ctx context.Context) (string, error) {
	result, err := s.in.run(ctx, "--method", "initialize")
	if err != nil {
		return "", err
	}
	var info struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(result, &info); err != nil {
		return "", fmt.Errorf("reading the Inspector's probe: %w", err)
	}
	return info.ProtocolVersion, nil
}

// listed lists one kind of thing and returns the values of key.
func (s *inspection) listed(ctx context.Context, method, field, key string) ([]string, error) {
	result, err := s.in.run(ctx, "--method", method)
	if err != nil {
		return nil, err
	}
	var lists map[string]json.RawMessage
	var items []map[string]any
	if err := json.Unmarshal(result, &lists); err != nil {
		return nil, fmt.Errorf("reading %s: %w", method, err)
	}
	if err := json.Unmarshal(lists[field], &items); err != nil {
		return nil, fmt.Errorf("reading %s: %w", method, err)
	}
	var values []string
	for _, item := range items {
		value, _ := item[key].(string)
		values = append(values, value)
	}
	return values, nil
}

func (s *inspection) list(ctx context.Context) (string, error) {
	var errs []error
	find := func(into *string, items []string, err error, name string) {
		found, err := named(items, err, name)
		*into = found
		errs = append(errs, err)
	}
	tools, err := s.listed(ctx, "tools/list", "tools", "name")
	find(&s.names.echo, tools, err, "echo")
	find(&s.names.slow, tools, err, "slow")
	find(&s.names.count, tools, err, "cancelled_count")
	prompts, err := s.listed(ctx, "prompts/list", "prompts", "name")
	find(&s.names.greet, prompts, err, "greet")
	resources, err := s.listed(ctx, "resources/list", "resources", "uri")
	find(&s.names.text, resources, err, fixture.ResourceURI)
	templates, err := s.listed(ctx, "resources/templates/list", "resourceTemplates", "uriTemplate")
	find(&s.names.item, templates, err, fixture.TemplateURI)
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return "tools, prompt, resource and template", nil
}

func (s *inspection) call(ctx context.Context, name, args string) (text string, structured string, err error) {
	result, err := s.in.run(ctx, "--method", "tools/call", "--tool-name", name, "--tool-args-json", args)
	if err != nil {
		return "", "", err
	}
	var r struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", "", fmt.Errorf("reading the result of %s: %w", name, err)
	}
	text, err = toolText(result)
	return text, string(r.StructuredContent), err
}

// returned makes one call.
func (s *inspection) returned(ctx context.Context, c call) (got returned) {
	var err error
	if c.Method == "tools/list" {
		var names []string
		names, err = s.listed(ctx, c.Method, "tools", "name")
		got.Text = strings.Join(names, " ")
	} else {
		var args []byte
		if args, err = json.Marshal(c.Args); err == nil {
			got.Text, _, err = s.call(ctx, c.Name, string(args))
		}
	}
	if err != nil {
		got.Error = strings.ReplaceAll(err.Error(), `\"`, `"`) // the text of a result, printed as JSON
	}
	return got
}

func (s *inspection) callInt64(ctx context.Context) (string, error) {
	text, structured, err := s.call(ctx, s.names.echo, `{"n":`+bigInt+`,"note":"<é>"}`)
	if err != nil {
		return "", err
	}
	if m := echoedN.FindStringSubmatch(text); m == nil || m[1] != bigInt {
		return "", fmt.Errorf("argument arrived in %s", text)
	}
	if m := echoedN.FindStringSubmatch(structured); m == nil || m[1] != bigInt {
		return "", fmt.Errorf("argument and text exact, structured content reads %s", structured)
	}
	return "argument, text and structured content exact", nil
}

func (s *inspection) readResource(ctx context.Context) (string, error) {
	for uri, want := range map[string]string{
		s.names.text: fixture.ResourceText,
		strings.Replace(s.names.item, "{id}", "42", 1): "item 42",
	} {
		result, err := s.in.run(ctx, "--method", "resources/read", "--uri", uri)
		if err != nil {
			return "", err
		}
		var r struct {
			Contents []struct {
				Text string `json:"text"`
			} `json:"contents"`
		}
		if err := json.Unmarshal(result, &r); err != nil {
			return "", fmt.Errorf("reading %s: %w", uri, err)
		}
		if len(r.Contents) != 1 || r.Contents[0].Text != want {
			return "", fmt.Errorf("%s reads %+v", uri, r.Contents)
		}
	}
	return "resource and template", nil
}

func (s *inspection) getPrompt(ctx context.Context) (string, error) {
	result, err := s.in.run(ctx, "--method", "prompts/get", "--prompt-name", s.names.greet, "--prompt-args", "name=Ada")
	if err != nil {
		return "", err
	}
	var r struct {
		Messages []struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", fmt.Errorf("reading the prompt: %w", err)
	}
	if len(r.Messages) != 1 || r.Messages[0].Content.Text != "Hello, Ada!" {
		return "", fmt.Errorf("got %+v", r.Messages)
	}
	return r.Messages[0].Content.Text, nil
}

// cancel interrupts a command as a person would. On stdio the server ends with
// its command, and takes its counts along.
func (s *inspection) cancel(ctx context.Context) (string, error) {
	if s.t.Transport == "stdio" {
		return "", errors.New("every command is a connection of its own")
	}
	label := s.t.Label + "_c"
	cmd := s.in.command(ctx, "--method", "tools/call", "--tool-name", s.names.slow,
		"--tool-args-json", `{"label":"`+label+`","ms":20000}`)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting the Inspector: %w", err)
	}
	var counts struct{ Cancelled, Running int }
	count := func() error {
		text, _, err := s.call(ctx, s.names.count, `{"label":"`+label+`"}`)
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &counts)
	}
	started := testwait.Within(10*time.Second, func() bool { return count() == nil && counts.Running == 1 })
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	_ = cmd.Wait()
	if !started {
		return "", errors.New("the slow call did not start")
	}
	var err error
	if !testwait.Within(3*time.Second, func() bool {
		err = count()
		return err == nil && counts.Cancelled == 1 && counts.Running == 0
	}) {
		if err != nil {
			return "", err
		}
		return "", fmt.Errorf("interrupting the command left the call running: %+v", counts)
	}
	return "seen by the server", nil
}

// noCommandFor reports a step as impossible as long as the Inspector's help
// mentions none of the words that would name it.
func (s *inspection) noCommandFor(words ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		cmd := exec.CommandContext(ctx, lab.node.path, s.in.script, "--cli", "--help")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.in.home, "COLUMNS=500"}
		ownGroup(cmd)
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("reading the Inspector's help: %w", err)
		}
		for _, word := range words {
			if strings.Contains(strings.ToLower(string(out)), word) {
				return "the help mentions " + word, nil
			}
		}
		return "", fmt.Errorf("no command for %s", words[0])
	}
}
