//go:build e2e && unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"sync"
)

// object is a JSON object that this client writes.
type object = map[string]any

// era is the kind of this client: a legacy one opens a session, a modern one makes
// requests that are complete in themselves.
type era string

const (
	legacy era = "legacy"
	modern era = "modern"
)

func parseEra(s string) (era, error) {
	if e := era(s); e == legacy || e == modern {
		return e, nil
	}
	return "", fmt.Errorf("unknown era %q: use legacy or modern", s)
}

// version is the revision that a client of the era speaks.
func (e era) version() string {
	if e == legacy {
		return "2025-11-25"
	}
	return "2026-07-28"
}

const (
	maxLine      = 32 << 20 // bytes of one message
	maxQuestions = 16       // that wait for their answer
	maxPages     = 100      // of one list
	maxRounds    = 10       // of questions within one call
)

// clientInfo is the name of this client.
var clientInfo = object{"name": "toolgate-conformance-client", "version": "1"}

// capabilities are everything that a server may ask this client for.
var capabilities = object{
	"elicitation": object{"form": object{}},
	"sampling":    object{},
	"roots":       object{},
}

// message is a line that toolgate wrote.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *fault          `json:"error"`
}

// fault is a JSON-RPC error.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f *fault) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", f.Code, f.Message) }

// client writes and reads the lines of one stdio connection. Its methods are
// safe for concurrent use, and what they call toolgate for ends with their
// context or with toolgate.
type client struct {
	era     era
	gateway *gateway
	// meanwhile runs once for each question, before it is answered; nil does nothing. Set
	// it before the call.
	meanwhile func(context.Context) error

	questions chan message  // requests of the server, closed at the end of the output
	read      chan struct{} // closed when reading and answering have ended

	writing sync.Mutex // of one line

	mu      sync.Mutex
	last    int                     // id of the last request
	pending map[string]chan message // by id, each with room for one
	lost    error                   // why no further answer can come
	wrong   []error                 // what toolgate should not have written or asked
}

// newClient starts to read what g writes and to answer what it asks, which ends
// with g's output. The answers are given up with ctx.
func newClient(ctx context.Context, e era, g *gateway) *client {
	c := &client{
		era: e, gateway: g, pending: map[string]chan message{},
		questions: make(chan message, maxQuestions), read: make(chan struct{}),
	}
	var parts sync.WaitGroup
	parts.Go(c.reads)
	parts.Go(func() {
		for q := range c.questions {
			c.reply(ctx, q)
		}
	})
	go func() {
		parts.Wait()
		close(c.read)
	}()
	return c
}

// open initializes the connection as the era does.
func (c *client) open(ctx context.Context) error {
	if c.era == modern {
		_, err := c.request(ctx, "server/discover", object{})
		return err
	}
	_, err := c.request(ctx, "initialize", object{
		"protocolVersion": c.era.version(), "capabilities": capabilities, "clientInfo": clientInfo,
	})
	if err != nil {
		return err
	}
	return c.write(object{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// close ends toolgate and returns what it did wrong besides its answers.
func (c *client) close() error {
	err := c.gateway.end(c.read)
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(c.wrong, err)...)
}

// reads hands over what toolgate writes, until its output ends.
func (c *client) reads() {
	defer close(c.questions)
	lines := bufio.NewScanner(c.gateway.out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var msg message
		if err := json.Unmarshal(lines.Bytes(), &msg); err != nil {
			c.blame(fmt.Errorf("on standard output, not JSON-RPC: %q", lines.Text()))
			continue
		}
		switch {
		case msg.Method != "" && msg.ID != nil:
			select {
			case c.questions <- msg:
			default:
				c.blame(fmt.Errorf("more than %d questions at once", maxQuestions))
			}
		case msg.Method == "":
			c.settle(msg)
		}
	}
	c.lose(errors.Join(errors.New("the output of toolgate has ended"), lines.Err()))
	// toolgate must not wait for a reader that has given up.
	_, _ = io.Copy(io.Discard, c.gateway.out)
}

// lose fails the open requests and all later ones.
func (c *client) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
	for id, waiting := range c.pending {
		close(waiting)
		delete(c.pending, id)
	}
}

// settle passes an answer to its request.
func (c *client) settle(msg message) {
	c.mu.Lock()
	waiting := c.pending[string(msg.ID)]
	delete(c.pending, string(msg.ID))
	c.mu.Unlock()
	if waiting == nil {
		c.blame(fmt.Errorf("an answer to request %s, which is not open", msg.ID))
		return
	}
	waiting <- msg
}

func (c *client) blame(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, err)
}

// write writes one line. It may block until toolgate reads, which must not block reading:
// so it has a lock of its own.
func (c *client) write(msg object) error {
	line, err := json.Marshal(msg)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.gateway.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing to toolgate: %w", err)
	}
	return nil
}

// request makes one request. The error is a *fault if toolgate answers with one.
func (c *client) request(ctx context.Context, method string, params object) (json.RawMessage, error) {
	if c.era == modern {
		params = maps.Clone(params)
		params["_meta"] = object{
			"io.modelcontextprotocol/protocolVersion":    c.era.version(),
			"io.modelcontextprotocol/clientCapabilities": capabilities,
			"io.modelcontextprotocol/clientInfo":         clientInfo,
		}
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, c.lost)
	}
	c.last++
	id := c.last
	c.pending[strconv.Itoa(id)] = answer
	c.mu.Unlock()
	if err := c.write(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case msg, ok := <-answer:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: the output of toolgate ended before the answer", method)
		case msg.Error != nil:
			return nil, fmt.Errorf("%s: %w", method, msg.Error)
		}
		return msg.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
