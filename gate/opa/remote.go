package opa

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	maxAtOnce   = 16      // decisions of one list that are asked for at a time
	maxAnswer   = 1 << 20 // bytes of an answer
	maxFailures = 5       // after so many in a row the server is left alone
	pause       = time.Second
)

// errResting is the error of a decision while the server is left alone.
var errResting = errors.New("the policy server does not answer; it is asked again within a second")

// remote asks an OPA server (OPA REST API, "Get a Document (with Input)").
type remote struct {
	o       *Options
	path    string // of the decision, below the base URL
	url     string
	client  *http.Client
	circuit circuit
}

func newRemote(o *Options, decision ast.Ref) *remote {
	parts := []string{"", "v1", "data"}
	for _, t := range decision[1:] {
		parts = append(parts, url.PathEscape(string(t.Value.(ast.String))))
	}
	path := strings.Join(parts, "/")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // a policy server is a neighbour
	transport.DialContext = (&net.Dialer{Timeout: o.Timeout}).DialContext
	transport.MaxIdleConnsPerHost = maxAtOnce
	return &remote{
		o:    o,
		path: path,
		url:  strings.TrimRight(o.URL, "/") + path + "?strict-builtin-errors=true&provenance=true",
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// question returns the body of the question about a request. What a policy server's
// policy reads is not known, so that it is never shown less than is delivered.
func (m *remote) question(r *gate.Request) ([]byte, error) {
	in, err := m.o.document(r, true)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"input": in})
}

// decide asks the server. Only what the server is to blame for counts against
// it.
func (m *remote) decide(ctx context.Context, r *gate.Request) (verdict, error) {
	body, err := m.question(r)
	if err != nil {
		return unseen(verdict{}, err)
	}
	ok, probe := m.circuit.enter()
	if !ok {
		return verdict{}, errResting
	}
	raw, err := m.post(ctx, body)
	_, answered := errors.AsType[*gate.RequestError](err)
	m.circuit.leave(probe, err == nil || answered, ctx.Err() != nil)
	if err != nil {
		return verdict{}, fmt.Errorf("ask the policy server: %w", err)
	}
	v, err := interpretAnswer(raw)
	if err != nil {
		return v, fmt.Errorf("answer of the policy server: %w", err)
	}
	return v, nil
}

func (m *remote) post(ctx context.Context, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.o.Timeout, fmt.Errorf("no answer within %v", m.o.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, withoutURL(err)
	}
	for name, values := range m.o.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := m.client.Do(req)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, because(ctx, err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d KiB", maxAnswer>>10)
	case res.StatusCode == http.StatusInternalServerError && evaluationFailed(raw):
		return nil, failed(fmt.Errorf("it could not evaluate the policy: %.1000s", raw))
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %s", res.Status)
	}
	return raw, mcp.Validate(raw, mcp.Limits{})
}

// evaluationFailed tells whether an error of the server is of the evaluation of one
// question, such as a builtin function that failed, and not of the server (OPA REST
// API, "Errors").
func evaluationFailed(raw []byte) bool {
	var said struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if mcp.Validate(raw, mcp.Limits{}) != nil || json.Unmarshal(raw, &said) != nil || len(said.Errors) == 0 {
		return false
	}
	for _, e := range said.Errors {
		if !strings.HasPrefix(e.Code, "eval_") || e.Code == "eval_cancel_error" {
			return false
		}
	}
	return true
}

// because returns why an exchange ended: our bound, or what went wrong.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return withoutURL(err)
}

// interpretAnswer reads the answer of the server. An undefined decision has no
// result.
func interpretAnswer(raw []byte) (verdict, error) {
	v, err := decodeJSON(raw)
	if err != nil {
		return verdict{}, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return verdict{}, fmt.Errorf("it is %s and must be an object", kindOf(v))
	}
	id, _ := m["decision_id"].(string)
	revision := revisionOf(m["provenance"])
	result, ok := m["result"]
	if !ok {
		return verdict{id: id, revision: revision}, failed(errUndefined)
	}
	out, err := interpret(result)
	out.id, out.revision = id, revision
	return out, failed(err)
}

// revisionOf reads the revisions of the bundles that a server has loaded.
func revisionOf(provenance any) string {
	p, ok := provenance.(map[string]any)
	if !ok {
		return ""
	}
	bundles, ok := p["bundles"].(map[string]any)
	if !ok {
		revision, _ := p["revision"].(string)
		return revision
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(bundles)) {
		b, _ := bundles[name].(map[string]any)
		revision, _ := b["revision"].(string)
		all = append(all, name+"="+revision)
	}
	return strings.Join(all, ",")
}

// circuit leaves a server alone that has failed [maxFailures] times in a row,
// for [pause]; then one question is let through. Its zero value is closed.
type circuit struct {
	mu       sync.Mutex // guards what follows
	failures int
	until    time.Time // left alone until then
	probing  bool      // the one question is out
}

// enter tells whether the server may be asked, and whether that is the one
// question. Then leave must be called.
func (c *circuit) enter() (ok, probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures < maxFailures {
		return true, false
	}
	if c.probing || time.Now().Before(c.until) {
		return false, false
	}
	c.probing = true
	return true, true
}

// leave reports how the question went. One that its asker gave up says nothing
// about the server.
func (c *circuit) leave(probe, ok, gaveUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe {
		c.probing = false
	}
	switch {
	case ok:
		c.failures = 0
	case !gaveUp:
		c.failures++
		if c.failures >= maxFailures {
			c.until = time.Now().Add(pause)
		}
	}
}
