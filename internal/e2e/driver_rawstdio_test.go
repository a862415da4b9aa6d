//go:build e2e && unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// rawStdio is a client on standard input and output that writes its own lines
// and, unlike the libraries, takes every line that is not JSON as a failure:
// nothing but MCP belongs on a server's output.
type rawStdio struct {
	in   io.WriteCloser
	proc *process

	mu      sync.Mutex
	id      int
	pending map[string]chan rpcMessage
	bad     []string // lines that are not JSON-RPC
	ended   error    // why no further answer can come
	changed chan struct{}
}

// dialRawStdio starts the target's command and opens a legacy session. Both end
// with t.
func dialRawStdio(t *testing.T, to target) *rawStdio {
	t.Helper()
	cmd := exec.Command(to.Command, to.Args...)
	cmd.Env = envList(to.Env)
	c := &rawStdio{pending: map[string]chan rpcMessage{}, changed: make(chan struct{}, 1)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("opening standard input: %v", err)
	}
	r, w := io.Pipe()
	cmd.Stdout = w
	c.in = in
	c.proc = start(t, "stdio server", cmd)
	go func() {
		<-c.proc.done
		w.Close() // the output has ended
	}()
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		c.read(r)
	}()
	t.Cleanup(func() {
		in.Close()
		select {
		case <-c.proc.done:
		case <-time.After(stopAfter):
			t.Errorf("the server on stdio did not end within %s of the end of its input", stopAfter)
			c.proc.stop(t)
		}
		<-reading
		for _, line := range c.bad {
			t.Errorf("on standard output, not JSON-RPC: %q", line)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.call(ctx, "initialize", object{
		"protocolVersion": legacyVersion,
		"capabilities":    object{},
		"clientInfo":      object{"name": "toolgate-e2e-raw-stdio", "version": "1"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.write(object{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// read hands answers over until the output ends.
func (c *rawStdio) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		var msg rpcMessage
		err := json.Unmarshal(lines.Bytes(), &msg)
		c.mu.Lock()
		switch {
		case err != nil:
			c.bad = append(c.bad, lines.Text())
		case msg.Method == "notifications/tools/list_changed":
			select {
			case c.changed <- struct{}{}:
			default:
			}
		case msg.Method == "" && c.pending[string(msg.ID)] != nil:
			c.pending[string(msg.ID)] <- msg
			delete(c.pending, string(msg.ID))
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = errors.Join(errors.New("the output has ended"), lines.Err())
	for id, waiting := range c.pending {
		close(waiting)
		delete(c.pending, id)
	}
}

func (c *rawStdio) write(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing to standard input: %w", err)
	}
	return nil
}

// call makes one request and returns its result.
func (c *rawStdio) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan rpcMessage, 1)
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, c.ended)
	}
	c.id++
	id := c.id
	c.pending[fmt.Sprint(id)] = answer
	err := c.write(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case msg, ok := <-answer:
		if !ok {
			return nil, fmt.Errorf("%s: the output ended before the answer", method)
		}
		if msg.Error != nil {
			return nil, fmt.Errorf("%s: %w", method, msg.Error)
		}
		return msg.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// values lists one kind of thing and returns the values of key.
func (c *rawStdio) values(ctx context.Context, method, field, key string) ([]string, error) {
	result, err := c.call(ctx, method, object{})
	if err != nil {
		return nil, err
	}
	var page map[string]json.RawMessage
	var items []map[string]any
	if err := json.Unmarshal(result, &page); err != nil {
		return nil, fmt.Errorf("reading %s: %w", method, err)
	}
	if page["nextCursor"] != nil {
		return nil, fmt.Errorf("reading %s: this client follows no cursors", method)
	}
	if err := json.Unmarshal(page[field], &items); err != nil {
		return nil, fmt.Errorf("reading %s: %w", method, err)
	}
	var all []string
	for _, item := range items {
		value, _ := item[key].(string)
		all = append(all, value)
	}
	return all, nil
}

func (c *rawStdio) Protocol() string { return legacyVersion }
func (c *rawStdio) Ordered() bool    { return true }

func (c *rawStdio) Tools(ctx context.Context) ([]string, error) {
	return c.values(ctx, "tools/list", "tools", "name")
}

func (c *rawStdio) Prompts(ctx context.Context) ([]string, error) {
	return c.values(ctx, "prompts/list", "prompts", "name")
}

func (c *rawStdio) Resources(ctx context.Context) ([]string, error) {
	return c.values(ctx, "resources/list", "resources", "uri")
}

func (c *rawStdio) Templates(ctx context.Context) ([]string, error) {
	return c.values(ctx, "resources/templates/list", "resourceTemplates", "uriTemplate")
}

// Call ignores onProgress: this client asks for none.
func (c *rawStdio) Call(ctx context.Context, name, args string, _ func(float64)) (callResult, error) {
	result, err := c.call(ctx, "tools/call", object{"name": name, "arguments": json.RawMessage(args)})
	if err != nil {
		return callResult{}, err
	}
	var r struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return callResult{}, fmt.Errorf("reading the result of %s: %w", name, err)
	}
	text, err := toolText(result)
	return callResult{Text: text, Structured: string(r.StructuredContent)}, err
}

func (c *rawStdio) Read(ctx context.Context, uri string) (string, error) {
	result, err := c.call(ctx, "resources/read", object{"uri": uri})
	if err != nil {
		return "", err
	}
	var r struct {
		Contents []struct {
			Text string `json:"text"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Contents) != 1 {
		return "", fmt.Errorf("reading %s: %d contents (%w)", uri, len(r.Contents), err)
	}
	return r.Contents[0].Text, nil
}

func (c *rawStdio) Prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	result, err := c.call(ctx, "prompts/get", object{"name": name, "arguments": args})
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
	if err := json.Unmarshal(result, &r); err != nil || len(r.Messages) == 0 {
		return "", fmt.Errorf("reading prompt %s: %d messages (%w)", name, len(r.Messages), err)
	}
	return r.Messages[0].Content.Text, nil
}

func (c *rawStdio) Watch(context.Context) (<-chan struct{}, error) { return c.changed, nil }
