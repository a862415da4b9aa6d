//go:build e2e && unix

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// rawTimeout bounds one exchange of a raw client.
const rawTimeout = 10 * time.Second

// rawHTTP shares no connection with the default client of other tests.
var rawHTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}

// raw is a client that writes its own bytes: for what no library would send. It
// speaks streamable HTTP in the legacy era; session stays empty until
// initialize. It is for one goroutine.
type raw struct {
	url     string
	key     string // API key, sent as a bearer token when not empty
	declare object // its capabilities; nil is none
	session string
	id      int
}

// answer is one HTTP answer with the JSON-RPC messages in it, whether it came as
// JSON or as a stream.
type answer struct {
	status   int
	header   http.Header
	body     string
	messages []json.RawMessage
}

// send makes one HTTP request. An empty body is a request without one.
func (r *raw) send(ctx context.Context, method, url, body string, header map[string]string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, rawTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	if r.session != "" {
		req.Header.Set("Mcp-Session-Id", r.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := rawHTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the answer to %s %s: %w", method, url, err)
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: string(data)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for _, e := range events(bytes.NewReader(data)) {
			a.messages = append(a.messages, json.RawMessage(e.data))
		}
	} else if json.Valid(data) {
		a.messages = []json.RawMessage{data}
	}
	return a, nil
}

// event is one server-sent event.
type event struct{ id, name, data string }

// events reads server-sent events until the stream ends. Events without data
// are left out.
func events(in io.Reader) []event {
	var all []event
	next := eventReader(in)
	for {
		e, err := next()
		if err != nil {
			return all
		}
		all = append(all, e)
	}
}

// eventReader returns a function that reads the next event that has data.
func eventReader(in io.Reader) func() (event, error) {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 32<<20)
	return func() (event, error) {
		var e event
		for scan.Scan() {
			field, value, _ := strings.Cut(scan.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "":
				if scan.Text() != "" {
					continue // a comment
				}
				if e.data != "" {
					return e, nil
				}
				e = event{}
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				if e.data != "" {
					e.data += "\n"
				}
				e.data += value
			}
		}
		return e, errors.Join(io.EOF, scan.Err())
	}
}

// rpcMessage is what is read of a JSON-RPC message.
type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// call makes one JSON-RPC request, opening a session first where there is none,
// and returns its result. A JSON-RPC error is returned as *rpcError.
func (r *raw) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if r.session == "" && method != "initialize" {
		if err := r.initialize(ctx); err != nil {
			return nil, err
		}
	}
	if params == nil {
		params = struct{}{}
	}
	r.id++
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": r.id, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("writing a %s request: %w", method, err)
	}
	a, err := r.send(ctx, http.MethodPost, r.url, string(body), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if method == "initialize" {
		r.session = a.header.Get("Mcp-Session-Id")
	}
	return a.result(method, r.id)
}

// result returns the result of the request with the given id.
func (a *answer) result(method string, id int) (json.RawMessage, error) {
	for _, m := range a.messages {
		var msg rpcMessage
		if json.Unmarshal(m, &msg) != nil || string(msg.ID) != fmt.Sprint(id) || msg.Method != "" {
			continue
		}
		if msg.Error != nil {
			return nil, fmt.Errorf("%s: %w", method, msg.Error)
		}
		return msg.Result, nil
	}
	return nil, fmt.Errorf("%s: HTTP %d without an answer: %.300s", method, a.status, a.body)
}

func (r *raw) initialize(ctx context.Context) error {
	declare := r.declare
	if declare == nil {
		declare = object{}
	}
	_, err := r.call(ctx, "initialize", object{
		"protocolVersion": "2025-11-25",
		"capabilities":    declare,
		"clientInfo":      object{"name": "toolgate-e2e-raw", "version": "1"},
	})
	if err != nil {
		return err
	}
	if r.session == "" {
		return errors.New("initialize: answered without a session id")
	}
	_, err = r.send(ctx, http.MethodPost, r.url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	return err
}

// toolNames lists the names of all tools, following cursors for a bounded
// number of pages.
func (r *raw) toolNames(ctx context.Context) ([]string, error) {
	var names []string
	cursor := ""
	for range 100 {
		params := object{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		result, err := r.call(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("reading a page of tools: %w", err)
		}
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			return names, nil
		}
	}
	return nil, errors.New("tools/list: more than 100 pages")
}

// callTool calls a tool and returns the text of its result.
func (r *raw) callTool(ctx context.Context, name string, args any) (string, error) {
	result, err := r.call(ctx, "tools/call", object{"name": name, "arguments": args})
	if err != nil {
		return "", err
	}
	return toolText(result)
}

// toolText returns the text content of a tool result, or an error that holds it
// when the tool reports one.
func toolText(result json.RawMessage) (string, error) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", fmt.Errorf("reading a tool result: %w", err)
	}
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	if r.IsError {
		return "", fmt.Errorf("tool error: %s", text.String())
	}
	return text.String(), nil
}
