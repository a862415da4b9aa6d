// Package webhook asks an interceptor by a signed POST.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// maxAnswer bounds an answer, in bytes. What it holds is bounded again by the chain.
const maxAnswer = 2 << 20

// Webhook is an [intercept.Interceptor] behind a URL. Each question is a JSON object in a
// POST, signed as questions about approvals are (see [approval.SignatureHeader]). The
// answer is a JSON object with status 200. Make it with [New]; it is safe for concurrent
// use.
type Webhook struct {
	to     intercept.Webhook
	name   string
	client *http.Client
}

// New returns a webhook. It follows no redirects.
func New(name string, to intercept.Webhook) *Webhook {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost = 16, 16, 64
	return &Webhook{to: to, name: name, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// question is the body of a POST.
type question struct {
	Interceptor string          `json:"interceptor"`
	Phase       intercept.Phase `json:"phase"`
	Call        string          `json:"call,omitempty"` // id in the audit log
	Method      string          `json:"method"`
	Principal   string          `json:"principal,omitempty"`
	Tenant      string          `json:"tenant,omitempty"`
	Capsule     string          `json:"capsule,omitempty"`
	Server      string          `json:"server"`
	Name        string          `json:"name"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// answer is what the receiver returns.
type answer struct {
	Decision  string          `json:"decision"` // allow, deny or ask
	Reason    string          `json:"reason"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Note      string          `json:"note"`
}

// effects are the decisions by their words.
var effects = map[string]intercept.Effect{"allow": intercept.Pass, "deny": intercept.Deny, "ask": intercept.Ask}

// Intercept implements [intercept.Interceptor].
func (w *Webhook) Intercept(ctx context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
	q := question{
		Interceptor: w.name, Phase: inv.Phase, Call: inv.ID, Method: inv.Method, Principal: inv.Principal, Tenant: inv.Tenant, Capsule: inv.Capsule,
		Server: inv.Server, Name: inv.Name,
	}
	switch inv.Phase {
	case intercept.Before:
		q.Arguments = inv.Payload
	case intercept.After:
		q.Result = inv.Payload
	case intercept.List:
		q.Definition = inv.Payload
	}
	body, err := json.Marshal(&q)
	if err != nil {
		return intercept.Verdict{}, fmt.Errorf("write the question: %w", err)
	}
	raw, err := w.post(ctx, body)
	if err != nil {
		return intercept.Verdict{}, err
	}
	return read(inv.Phase, raw)
}

// post asks once and returns the body of the answer.
func (w *Webhook) post(ctx context.Context, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.to.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("post to the webhook: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(approval.SignatureHeader, approval.Sign(w.to.Secret.Reveal(), time.Now(), body))
	resp, err := w.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("post to the webhook: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the webhook answered %s", resp.Status)
	case err != nil:
		return nil, fmt.Errorf("read the webhook's answer: %w", err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the webhook's answer has more than %d bytes", maxAnswer)
	}
	return raw, nil
}

// read reads an answer. One that is not understood completely decides nothing.
func read(phase intercept.Phase, raw []byte) (intercept.Verdict, error) {
	var a answer
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return intercept.Verdict{}, fmt.Errorf("the webhook's answer is not understood: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return intercept.Verdict{}, errors.New("the webhook's answer goes on after its end")
	}
	effect, known := effects[a.Decision]
	if !known {
		return intercept.Verdict{}, fmt.Errorf("the webhook decided %.40q; allow, deny and ask are known", a.Decision)
	}
	v := intercept.Verdict{Effect: effect, Reason: a.Reason, Note: a.Note}
	if phase == intercept.Before {
		v.Payload, a.Arguments = a.Arguments, nil
	}
	if phase == intercept.After {
		v.Payload, a.Result = a.Result, nil
	}
	if a.Arguments != nil || a.Result != nil {
		return intercept.Verdict{}, fmt.Errorf("the webhook answered with what does not belong to the phase %s", phase)
	}
	return v, nil
}
