package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// requestTime bounds one request of a client, in all.
const requestTime = 20 * time.Second

// client is one MCP client over streamable HTTP with a connection of its own.
// It is not safe for concurrent use.
type client struct {
	url    string
	modern bool
	meta   string // the _meta of a modern client
	prefix string // before the names of tools
	number int64  // no other client of the process has it
	pool   *http.Transport
	http   *http.Client

	authorization []string // nil for none

	session string
	state   []byte // of a call that asked something, quoted
	last    bool   // the next request ends its connection
	sent    int64
	body    bytes.Buffer
	stream  io.Closer
	list    []byte // the list as it was when it was checked
}

var numbers atomic.Int64

func newClient(url, era, prefix string) *client {
	pool := &http.Transport{MaxIdleConns: 2, MaxIdleConnsPerHost: 2, IdleConnTimeout: 5 * time.Minute, DisableCompression: true}
	c := &client{
		url: url, modern: era != "legacy", prefix: prefix, pool: pool, number: numbers.Add(1),
		http: &http.Client{Transport: pool}, meta: modernMeta + "{}}",
	}
	if era == askable {
		c.meta = modernMeta + `{"elicitation":{}}}`
	}
	return c
}

// tokenVariable hands a client's token to the load generator, which no other
// user can look at.
const tokenVariable = "TOOLGATE_BENCH_TOKEN"

// authorize lets a client show a token; an empty one is none.
func (c *client) authorize(token string) {
	if token != "" {
		c.authorization = []string{"Bearer " + token}
	}
}

// askable is the era of a modern client that can be asked something.
const askable = "askable"

// ask calls a tool that asks something, and keeps what it takes to answer.
func (c *client) ask(ctx context.Context) error {
	c.last = true // nothing but the call is to be left
	result, err := c.call(ctx, mcp.MethodToolsCall, c.prefix+"ask", []byte(`{"name":"`+c.prefix+`ask"}`))
	if err != nil {
		return err
	}
	c.state = bytes.Clone(mcp.Lookup(result, "requestState"))
	if c.state == nil || mcp.Lookup(result, "inputRequests", "q1") == nil {
		return fmt.Errorf("ask: the result is %.300s", result)
	}
	return nil
}

// tell answers what was asked.
func (c *client) tell(ctx context.Context) error {
	if c.state == nil {
		return errors.New("tell: nothing was asked")
	}
	answer := fmt.Sprintf("answer %d", c.number)
	params := fmt.Appendf(nil, `{"name":"%sask","inputResponses":{"q1":{"action":"accept","content":{"text":"%s"}}},"requestState":%s}`,
		c.prefix, answer, c.state)
	c.state = nil
	got, err := c.text(ctx, "ask", params)
	if err == nil && got != answer {
		err = fmt.Errorf("tell: said %q, the tool heard %q", answer, got)
	}
	return err
}

// open begins the conversation: a session, or the discovery of 2026-07-28.
func (c *client) open(ctx context.Context) error {
	if c.modern {
		_, err := c.call(ctx, mcp.MethodDiscover, "", nil)
		return err
	}
	if err := c.initialize(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resp, err := c.do(ctx, http.MethodPost, mcp.NotifyInitialized, "", mcp.AppendNotification(nil, mcp.NotifyInitialized, nil))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("notifications/initialized: HTTP %d", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// initialize sends the first request of a session and keeps its id.
func (c *client) initialize(ctx context.Context) error {
	params := []byte(`{"protocolVersion":"` + string(mcp.LatestLegacy) + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	result, err := c.call(ctx, mcp.MethodInitialize, "", params)
	if err != nil {
		return err
	}
	if version, _ := mcp.LookupString(result, "protocolVersion"); version != string(mcp.LatestLegacy) {
		return fmt.Errorf("initialize: negotiated version %q", version)
	}
	if c.session == "" {
		return errors.New("initialize: no session id")
	}
	return nil
}

// echoSize is the size of what is echoed, in bytes.
const echoSize = 100

// echo calls the tool echo with a text that no other call has, and checks that
// it comes back.
func (c *client) echo(ctx context.Context) error {
	text := make([]byte, 0, echoSize)
	text = strconv.AppendInt(text, c.number, 10)
	text = append(text, ' ')
	text = strconv.AppendInt(text, c.sent, 10)
	text = append(text, ' ')
	for len(text) < echoSize {
		text = append(text, '.')
	}
	params := append(append([]byte(`{"name":"`+c.prefix+`echo","arguments":{"text":"`), text...), `"}}`...)
	got, err := c.text(ctx, "echo", params)
	if err != nil {
		return err
	}
	if got != string(text) {
		return fmt.Errorf("echo: sent %q, got %q", text, got)
	}
	return nil
}

// blob calls the tool blob and checks every byte of the text.
func (c *client) blob(ctx context.Context, size int) error {
	params := fmt.Appendf(nil, `{"name":"%sblob","arguments":{"bytes":%d}}`, c.prefix, size)
	got, err := c.text(ctx, "blob", params)
	if err != nil {
		return err
	}
	if len(got) != size || strings.Count(got, string(rune(fillByte))) != size {
		return fmt.Errorf("blob: want %d bytes, got %d, %d of them right", size, len(got), strings.Count(got, string(rune(fillByte))))
	}
	return nil
}

// say calls the tool echo with a text of a size.
func (c *client) say(ctx context.Context, size int) error {
	text := strings.Repeat(string(rune(fillByte)), size)
	got, err := c.text(ctx, "echo", []byte(`{"name":"`+c.prefix+`echo","arguments":{"text":"`+text+`"}}`))
	if err == nil && got != text {
		err = fmt.Errorf("echo: sent %d bytes, got %d", size, len(got))
	}
	return err
}

// refused calls a tool with arguments that it does not take, which must be
// answered by an error that tells which.
func (c *client) refused(ctx context.Context, size int) error {
	params := []byte(`{"name":"` + c.prefix + `echo","arguments":{"text":[` + strings.Repeat("0,", size/2) + `0]}}`)
	raw, err := c.call(ctx, mcp.MethodToolsCall, c.prefix+"echo", params)
	if err == nil && !(bytes.Contains(raw, []byte(`"isError":true`)) && bytes.Contains(raw, []byte("/text"))) {
		err = fmt.Errorf("echo: arguments that do not fit gave %.200s", raw)
	}
	return err
}

// nobody calls a tool that nobody offers, which must be refused.
func (c *client) nobody(ctx context.Context) error {
	raw, err := c.call(ctx, mcp.MethodToolsCall, c.prefix+"nobody", []byte(`{"name":"`+c.prefix+`nobody","arguments":{}}`))
	if err == nil {
		return fmt.Errorf("a tool that nobody offers gave %.200s", raw)
	}
	if !strings.Contains(err.Error(), "nknown tool") {
		return err
	}
	return nil
}

// text calls a tool and returns the text of its one content.
func (c *client) text(ctx context.Context, tool string, params []byte) (string, error) {
	raw, err := c.call(ctx, mcp.MethodToolsCall, c.prefix+tool, params)
	if err != nil {
		return "", err
	}
	var result struct {
		Content []struct{ Type, Text string }
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", fmt.Errorf("%s: read the result: %w", tool, err)
	}
	if result.IsError || len(result.Content) != 1 || result.Content[0].Type != "text" {
		return "", fmt.Errorf("%s: the result is %.300s", tool, raw)
	}
	return result.Content[0].Text, nil
}

// tools reads the whole list and returns how many tools are in it. A list of
// one page that equals the one before is not counted again.
func (c *client) tools(ctx context.Context) (int, error) {
	names := map[string]bool{}
	params := []byte("{}")
	for page := range 100 {
		raw, err := c.call(ctx, mcp.MethodToolsList, "", params)
		if err != nil {
			return 0, err
		}
		if page == 0 && c.list != nil && bytes.Equal(raw, c.list) {
			return c.known(), nil
		}
		var result struct {
			Tools      []struct{ Name string }
			NextCursor json.RawMessage `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &result); err != nil {
			return 0, fmt.Errorf("tools/list: read the result: %w", err)
		}
		for _, t := range result.Tools {
			if t.Name == "" || names[t.Name] {
				return 0, fmt.Errorf("tools/list: the name %q is empty or there twice", t.Name)
			}
			names[t.Name] = true
		}
		if result.NextCursor == nil {
			if page == 0 {
				c.list = bytes.Clone(raw)
			}
			return len(names), nil
		}
		params = append(append([]byte(`{"cursor":`), result.NextCursor...), '}')
	}
	return 0, errors.New("tools/list: more than 100 pages")
}

// known counts the tools of the list that was checked.
func (c *client) known() int { return bytes.Count(c.list, []byte(`"inputSchema":`)) }

// listen opens the standalone stream of the session and returns when its
// headers are there. Nothing is expected on it.
func (c *client) listen(ctx context.Context) error {
	resp, err := c.do(ctx, http.MethodGet, "", "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return fmt.Errorf("open the stream: HTTP %d", resp.StatusCode)
	}
	c.stream = resp.Body
	return nil
}

// end closes the stream and the session; it keeps the connection.
func (c *client) end(ctx context.Context) error {
	if c.stream != nil {
		c.stream.Close()
		c.stream = nil
	}
	if c.session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resp, err := c.do(ctx, http.MethodDelete, "", "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.session = ""
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("end the session: HTTP %d", resp.StatusCode)
	}
	return nil
}

// modernMeta is what a modern request says of its client, up to its
// capabilities.
const modernMeta = `"_meta":{"` + mcp.MetaVersion + `":"` + string(mcp.LatestModern) + `","` +
	mcp.MetaClientInfo + `":{"name":"bench","version":"1"},"` + mcp.MetaCapabilities + `":`

// call sends one request and returns the result of its answer, which is valid
// until the next call. name is what a modern request mirrors into Mcp-Name.
func (c *client) call(ctx context.Context, method, name string, params []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	c.sent++
	if c.modern {
		if len(params) > len("{}") {
			params = append(params[:len(params)-1:len(params)-1], `,`+c.meta+`}`...)
		} else {
			params = []byte("{" + c.meta + "}")
		}
	}
	raw := mcp.AppendRequest(nil, mcp.NumberID(c.sent), method, params)
	resp, err := c.do(ctx, http.MethodPost, method, name, raw)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	c.body.Reset()
	if _, err := c.body.ReadFrom(resp.Body); err != nil {
		return nil, fmt.Errorf("%s: read the answer: %w", method, err)
	}
	answer := c.body.Bytes()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP %d: %.300s", method, resp.StatusCode, answer)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		answer = lastEvent(answer)
	}
	var msg struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &msg); err != nil {
		return nil, fmt.Errorf("%s: read the answer: %w", method, err)
	}
	switch {
	case msg.JSONRPC != "2.0" || string(msg.ID) != strconv.FormatInt(c.sent, 10):
		return nil, fmt.Errorf("%s: the answer has the id %s, want %d", method, msg.ID, c.sent)
	case msg.Error != nil || msg.Result == nil:
		return nil, fmt.Errorf("%s: %.300s", method, answer)
	}
	if method == mcp.MethodInitialize {
		c.session = resp.Header.Get(mcp.HeaderSession)
	}
	return msg.Result, nil
}

// lastEvent returns the data of the last event of a stream.
func lastEvent(stream []byte) []byte {
	var data []byte
	for line := range bytes.Lines(stream) {
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = bytes.TrimSpace(rest)
		}
	}
	return data
}

var (
	contentType  = []string{"application/json"}
	acceptBoth   = []string{"application/json, text/event-stream"}
	legacyHeader = []string{string(mcp.LatestLegacy)}
	modernHeader = []string{string(mcp.LatestModern)}
)

// do sends one HTTP request with the headers of the era.
func (c *client) do(ctx context.Context, verb, method, name string, body []byte) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, verb, c.url, reader)
	if err != nil {
		return nil, err
	}
	r.Close, c.last = c.last, false
	r.Header["Accept"] = acceptBoth
	if body != nil {
		r.Header["Content-Type"] = contentType
	}
	switch {
	case c.modern:
		r.Header[mcp.HeaderVersion] = modernHeader
		r.Header[mcp.HeaderMethod] = []string{method}
		if name != "" {
			r.Header[mcp.HeaderName] = []string{name}
		}
	case c.session != "":
		r.Header[mcp.HeaderVersion] = legacyHeader
		r.Header[mcp.HeaderSession] = []string{c.session}
	}
	if c.authorization != nil {
		r.Header["Authorization"] = c.authorization
	}
	return c.http.Do(r)
}

// close gives up the connections.
func (c *client) close() {
	if c.stream != nil {
		c.stream.Close()
	}
	c.pool.CloseIdleConnections()
}
