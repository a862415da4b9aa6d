package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// maxRounds is how often a modern server may ask its client during one call.
const maxRounds = 10

// carry brings a call to its backend in the way that the eras of both sides
// need: within one era, and wherever nothing can be asked, as it is.
func (g *Gateway) carry(ctx context.Context, x *Exchange, r *Route, rec *record, call *mcp.Call, retry *retry) (_ mcp.Answer, err error) {
	d := &dialogue{g: g, x: x, to: r.to, on: r}
	if r.to.mount.Native {
		ctx = gate.WithCaller(ctx, x.Identity, x.Scope.Capsule)
	}
	first, by := *call, rec.approved
	d.judge = func(ctx context.Context) error { return g.reconsiderFinal(ctx, d.client(), r, by, &first) }
	defer func() {
		err = d.said.partly(err)
		rec.bought.delivered = d.delivered.Load() || retry != nil && retry.park != nil
	}()
	call.Notify, call.Ask = d.notify, d.ask
	call.Askable = askable(x, r.to.mount.Questions)
	if !call.Progress && call.LogLevel == "" {
		call.Notify = nil
	}
	switch {
	case retry != nil && retry.park != nil:
		rec.park = retry.park
		return rec.park.round(ctx, x, retry.responses)
	case call.Askable && x.Era == mcp.Modern && r.to.listing.Era == mcp.Legacy:
		rec.park = g.newPark(x, func(ctx context.Context, p *park) (mcp.Answer, error) {
			d.x, d.park = nil, p
			got, err := d.run(ctx, r, call)
			return got, d.said.partly(err)
		})
		return rec.park.round(ctx, x, nil)
	case x.Era == mcp.Legacy:
		got, err := g.converse(ctx, x, r, d, rec, call)
		rec.entry.Rounds = int(d.answered.Load())
		return got, err
	}
	return d.run(ctx, r, call)
}

// askable tells whether a server may ask a client anything.
func askable(x *Exchange, q Questions) bool {
	return q.Elicitation && mcp.Lookup(x.Capabilities, "elicitation") != nil ||
		q.Sampling && mcp.Lookup(x.Capabilities, "sampling") != nil ||
		q.Roots && mcp.Lookup(x.Capabilities, "roots") != nil
}

// converse carries the call of a legacy client. What a modern server asks by an
// input request goes out as requests on the stream of the call; then the call
// is made again with the answers, behind the gate and the rules (2026-07-28
// basic/patterns/mrtr, for a client that does not know it).
func (g *Gateway) converse(ctx context.Context, x *Exchange, r *Route, d *dialogue, rec *record, call *mcp.Call) (mcp.Answer, error) {
	for round := 1; ; round++ {
		got, err := d.run(ctx, r, call)
		if err != nil || got.Era == mcp.Legacy || !asksInput(got.Result) || call.Method == mcp.MethodComplete {
			return got, err
		}
		d.delivered.Store(true)
		if round > maxRounds {
			return mcp.Answer{}, tooManyRounds(r)
		}
		responses, err := d.inquire(ctx, r, got.Result)
		if err != nil {
			return mcp.Answer{}, err
		}
		if err := g.reconsider(ctx, x, r, rec, call); err != nil {
			return mcp.Answer{}, err
		}
		again := *call
		again.Params = mcp.RemoveMember(mcp.RemoveMember(call.Params, "inputResponses"), "requestState")
		if responses != nil {
			again.Params = mcp.SetMember(again.Params, "inputResponses", responses)
		}
		if state := mcp.Lookup(got.Result, "requestState"); state != nil {
			again.Params = mcp.SetMember(again.Params, "requestState", state)
		}
		call = &again
	}
}

// asksInput tells whether a result is one that asks for input.
func asksInput(result []byte) bool {
	kind, _ := mcp.LookupString(result, "resultType")
	return kind == mcp.ResultInputRequired
}

// maxInputs is how many questions one round may have.
const maxInputs = 16

// inquire puts the questions of an input request to a legacy client, all at
// once, and returns the InputResponses; nil when nothing is asked.
func (d *dialogue) inquire(ctx context.Context, r *Route, result []byte) ([]byte, error) {
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
			if in.answer, in.err = d.input(ctx, r, in.request); in.err != nil {
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

// input puts one question of an input request to a legacy client. One that is not
// to be put has no answer that says so, and ends the call.
func (d *dialogue) input(ctx context.Context, r *Route, request []byte) ([]byte, error) {
	method, _ := mcp.LookupString(request, "method")
	params := mcp.Lookup(request, "params")
	if params != nil && !mcp.IsObject(params) || !mcp.IsObject(request) {
		return nil, badQuestions(r)
	}
	if !d.may(d.x, method, params) {
		return nil, notAllowed(r, method)
	}
	params = d.redaction().question(method, params)
	params = questionFor(d.x, d.to.mount.Namespace, method, params)
	if mode, _ := mcp.LookupString(params, "mode"); mode == "url" { // which 2025-11-25 wants to have an id
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

// badQuestions is the refusal of a call whose server asked in no known form.
func badQuestions(r *Route) *refusal.Error {
	return refusal.BadAnswer(r.Server, "asked for input in a form that is not of the protocol.")
}

// notAllowed is the refusal of a call whose server asked what it may not ask.
func notAllowed(r *Route, method string) *refusal.Error {
	return refusal.QuestionRefused(r.Server, fmt.Sprintf("asked for %q, which this client or the operator does not allow.", method))
}
