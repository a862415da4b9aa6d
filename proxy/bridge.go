package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// maxRounds is how often a modern server may ask its client during one call.
const maxRounds = 10

// executeCall sends a call to its server and answers the client. Of equal calls at the
// same time it sends one, where the result may be reused.
func executeCall(c *call) (response, error) {
	if c.key == nil {
		return c.deliver()
	}
	inFlight, lead := c.g.reused.Join(*c.key, time.Now())
	if !lead {
		return c.follow(inFlight)
	}
	defer func() { inFlight.End(shareable(c), c.request.Principal, time.Now(), c.route.shape.Reuse) }()
	return c.deliver()
}

// deliver sends a call to its server and answers the client.
func (c *call) deliver() (response, error) {
	defer c.noteChange()()
	c.request.Params = c.rec.withTraceContext(c.request.Params)
	got, err := c.sendToBackend()
	if err := c.settleRound(&got, err); err != nil {
		return c.signInOrRefuse(err)
	}
	answer, err := c.translateResponse(got)
	if err != nil {
		return c.warned(c.refuse(err)), nil
	}
	if c.key != nil { // else nobody reuses it, and its memory may change
		accepted := got
		c.accepted = &accepted
	}
	return c.warned(answer), nil
}

// sendToBackend sends a call to its backend. Where client and server speak different
// eras and the server may ask the client something, the questions are translated. Every
// other call passes as it is.
func (c *call) sendToBackend() (_ mcp.Answer, err error) {
	g, x, r, request, ctx := c.g, c.x, c.route, c.request, c.ctx
	d := &serverRequests{g: g, x: x, to: r.to, on: r, memory: lent(c)}
	by := c.approved
	d.decideAgain = func(ctx context.Context) error { return g.decideAgainFor(ctx, d.client(), r, by, request) }
	resumed := c.retry != nil && c.retry.suspended != nil
	defer func() {
		err = d.partial.wrapTimeout(err)
		c.reserved.delivered = d.delivered.Load() || resumed
		c.asked = d.asked.Load() > 0 || d.answered.Load() > 0
		c.reserved.undelivered = d.refused.Load() && !c.reserved.delivered
	}()
	request.StillAllowed = d.stillAllowed
	request.Heard, request.Notify, request.Ask = &d.heard, d.notify, d.ask
	request.Askable = askable(x, r.to.mount.Questions) || r.to.samples(mcp.MethodSampling)
	if r.to.mount.Native {
		c.held = true
		mode := c.snap.schemasIn(x.Scope)
		ctx = forNative(ctx, g, x, mode)
		request.Nested, request.Detach = nestedWithin(c, d), d.detach(mode, by)
	}
	if !request.Progress && request.LogLevel == "" {
		request.Notify = nil
	}
	switch {
	case resumed:
		c.held = true
		c.suspended = c.retry.suspended
		return c.suspended.round(ctx, x, c.retry.responses)
	case request.Askable && x.Era == mcp.Modern && (r.to.listing.Era == mcp.Legacy || r.to.listing.Asks):
		c.held = true
		changed := c.noteChange()
		c.suspended = g.suspend(x, func(ctx context.Context, p *suspended) (mcp.Answer, error) {
			defer changed() // the server may work on after its client has gone
			d.x, d.suspended, d.memory = nil, p, nil
			if r.to.mount.Native {
				ctx = forNative(ctx, g, x, c.snap.schemasIn(x.Scope))
			}
			got, err := d.run(ctx, r, request)
			return got, d.partial.wrapTimeout(err)
		})
		return c.suspended.round(ctx, x, nil)
	case x.Era == mcp.Legacy || r.to.samples(mcp.MethodSampling):
		return c.callForClient(ctx, d)
	}
	return d.run(ctx, r, request)
}

// forNative returns a context in which parts of the gateway that are called like servers know
// the caller, who was listed schemas in this way.
func forNative(ctx context.Context, g *Gateway, x *Exchange, mode schemas.Mode) context.Context {
	ctx = listedAs(gate.WithCaller(ctx, x.Identity, x.Scope.Capsule), mode)
	return cancel.WithValues(result.WithReader(ctx, keptReader(g, x)))
}

// detach implements [mcp.Call.Detach] for a call that was approved by these.
func (d *serverRequests) detach(mode schemas.Mode, by approvals) func(own *mcp.Call) context.Context {
	return func(own *mcp.Call) context.Context {
		g, r, x := d.g, d.on, d.client().detached()
		own.StillAllowed = func(ctx context.Context) error {
			return decidedAgain(g, x, g.decideAgainFor(ctx, x, r, by, own))
		}
		return forNative(context.Background(), g, x, mode)
	}
}

// askable reports whether a server may ask a client anything.
func askable(x *Exchange, q Questions) bool {
	return q.Elicitation && mcp.Lookup(x.Capabilities, "elicitation") != nil ||
		q.Sampling && mcp.Lookup(x.Capabilities, "sampling") != nil ||
		q.Roots && mcp.Lookup(x.Capabilities, "roots") != nil
}

// callForClient carries the call of a client that cannot take an input request, or of which
// the gateway answers the questions itself. The questions of a modern server's input request
// go out as requests on the stream of the call, or are answered here. Then the call is sent
// again with the answers, after another look at the gate and the rules (2026-07-28
// basic/patterns/mrtr, for a client that does not know it). A modern client is asked the rest
// of an input request by its result, and the answers from here wait in its state.
func (c *call) callForClient(ctx context.Context, d *serverRequests) (mcp.Answer, error) {
	r, request := c.route, c.request
	if c.x.Era == mcp.Legacy {
		defer func() { c.rec.entry.Rounds = int(d.answered.Load()) }()
	}
	for round := 1; ; round++ {
		got, err := d.run(ctx, r, request)
		if err != nil || got.Era == mcp.Legacy || !asksInput(got.Result) || request.Method == mcp.MethodComplete {
			return got, err
		}
		d.delivered.Store(true)
		if c.x.Era == mcp.Modern {
			switch own, others := r.to.answersItself(got.Result); {
			case own == 0:
				return got, nil
			case others > 0:
				c.sampled, got.Result, err = d.answerOwn(ctx, r, got.Result)
				return got, err
			}
			c.rec.entry.Rounds++
		}
		if round > maxRounds {
			return mcp.Answer{}, tooManyRounds(r)
		}
		responses, err := d.askInputRequests(ctx, r, got.Result)
		if err != nil {
			return mcp.Answer{}, err
		}
		if err := c.decideAgain(); err != nil {
			return mcp.Answer{}, err
		}
		again := *request
		again.Params = mcp.RemoveMember(mcp.RemoveMember(request.Params, "inputResponses"), "requestState")
		if responses != nil {
			again.Params = mcp.SetMember(again.Params, "inputResponses", responses)
		}
		if state := mcp.Lookup(got.Result, "requestState"); state != nil {
			again.Params = mcp.SetMember(again.Params, "requestState", state)
		}
		request = &again
	}
}

// asksInput reports whether a result is an input request.
func asksInput(result []byte) bool {
	kind, _ := mcp.LookupString(result, "resultType")
	return kind == mcp.ResultInputRequired
}

// answersItself counts the questions of an input request that the gateway answers itself, and
// the others.
func (s *backendEntry) answersItself(result []byte) (own, others int) {
	requests := mcp.Lookup(result, "inputRequests")
	for m := range mcp.Members(requests) {
		if method, _ := mcp.LookupString(m.Value.Of(requests), "method"); s.samples(method) {
			own++
		} else {
			others++
		}
	}
	return own, others
}

const (
	// maxInputs is how many questions one round may have.
	maxInputs = 16
	// maxSampled bounds the gateway's own answers to a round, which its client carries until
	// the next one.
	maxSampled = 256 << 10
)

// answerOwn answers the questions of an input request that the gateway answers itself, and
// returns their InputResponses and the input request without them. Nothing is answered where
// the client cannot be asked the others.
func (d *serverRequests) answerOwn(ctx context.Context, r *Route, result []byte) (sampled, rest []byte, err error) {
	requests := mcp.Lookup(result, "inputRequests")
	own, others, asked := []byte("{}"), requests, 0
	for m := range mcp.Members(requests) {
		key, err := mcp.Unquote(m.Key(requests))
		if err != nil {
			return nil, nil, badQuestions(r)
		}
		if asked++; asked > maxInputs {
			return nil, nil, tooManyInputs(r)
		}
		request := m.Value.Of(requests)
		method, _ := mcp.LookupString(request, "method")
		switch {
		case d.to.samples(method):
			own, others = mcp.SetMember(own, key, request), mcp.RemoveMember(others, key)
		case !d.to.mount.Questions.allow(method) || !d.x.declares(method, mcp.Lookup(request, "params")):
			return nil, nil, notAllowed(r, method)
		}
	}
	sampled, err = d.askInputRequests(ctx, r, mcp.SetMember(nil, "inputRequests", own))
	switch {
	case err != nil:
		return nil, nil, err
	case len(sampled) > maxSampled:
		return nil, nil, refusal.QuestionRefused(r.Server, fmt.Sprintf("asked for a sampling whose answer has more than %d bytes, which no client carries.", maxSampled))
	}
	return sampled, mcp.SetMember(result, "inputRequests", others), nil
}

// askInputRequests puts the questions of an input request to a legacy client, all at
// once. It returns the InputResponses, nil when there is no question.
func (d *serverRequests) askInputRequests(ctx context.Context, r *Route, result []byte) ([]byte, error) {
	requests := mcp.Lookup(result, "inputRequests")
	if requests == nil {
		return nil, nil
	}
	if !mcp.IsObject(requests) {
		return nil, badQuestions(r)
	}
	type input struct {
		key, request []byte
		answer       []byte
		err          error
	}
	var inputs []*input
	for m := range mcp.Members(requests) {
		if len(inputs) == maxInputs {
			return nil, tooManyInputs(r)
		}
		inputs = append(inputs, &input{key: m.Key(requests), request: m.Value.Of(requests)})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, in := range inputs {
		all.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					in.err = d.g.panicked(r)
					cancel()
				}
			}()
			if in.answer, in.err = d.askInputRequest(ctx, r, in.request); in.err != nil {
				cancel() // the call cannot go on without it
			}
		})
	}
	all.Wait()
	out := []byte("{")
	for i, in := range inputs {
		if in.err != nil {
			return nil, in.err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, in.key...), ':'), in.answer...)
	}
	return append(out, '}'), nil
}

// askInputRequest puts one question to a legacy client. A question that must not be
// asked ends the call: no response to it could say so.
func (d *serverRequests) askInputRequest(ctx context.Context, r *Route, request []byte) ([]byte, error) {
	method, _ := mcp.LookupString(request, "method")
	params := mcp.Lookup(request, "params")
	if params != nil && !mcp.IsObject(params) || !mcp.IsObject(request) {
		return nil, badQuestions(r)
	}
	if d.to.samples(method) {
		answer, fault := d.sample(ctx, d.x, params)
		if fault != nil {
			return nil, refusal.QuestionRefused(r.Server, fmt.Sprintf("asked for %q, which was not answered: %s.", method, strings.TrimSuffix(fault.Message, ".")))
		}
		d.answered.Add(1)
		return mcp.RewriteMeta(answer, nil), nil
	}
	if !d.allowQuestion(d.x, method, params) {
		return nil, notAllowed(r, method)
	}
	params = d.redaction().question(method, params)
	params = questionFor(d.x, d.to.mount.Namespace, method, params)
	if mode, _ := mcp.LookupString(params, "mode"); mode == "url" { // 2025-11-25 requires an id
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		params = mcp.SetMember(params, "elicitationId", mcp.Quote(hex.EncodeToString(id[:])))
	}
	msg, err := d.waitFor(ctx, d.x, method, params)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil, msg.Fault() != nil && method != mcp.MethodElicit, !mcp.IsObject(msg.Result()) && msg.Fault() == nil:
		return nil, refusal.QuestionRefused(r.Server, fmt.Sprintf("asked for %q and the client did not answer it.", method))
	case msg.Fault() != nil:
		return []byte(`{"action":"cancel"}`), nil
	}
	d.answered.Add(1)
	return mcp.RewriteMeta(msg.Result(), nil), nil
}

func tooManyRounds(r *Route) *refusal.Error {
	return refusal.QuestionRefused(r.Server, fmt.Sprintf("asked more than %d times.", maxRounds))
}

func tooManyInputs(r *Route) *refusal.Error {
	return refusal.QuestionRefused(r.Server, fmt.Sprintf("asked more than %d things at once.", maxInputs))
}

// badQuestions is the refusal of a call whose server asked in an unknown form.
func badQuestions(r *Route) *refusal.Error {
	return refusal.BadAnswer(r.Server, "asked for input in a form that is not of the protocol.")
}

// notAllowed is the refusal of a call whose server asked a question that is not
// allowed.
func notAllowed(r *Route, method string) *refusal.Error {
	return refusal.QuestionRefused(r.Server, fmt.Sprintf("asked for %q, which this client or the operator does not allow.", method))
}
