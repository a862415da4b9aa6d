//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// lies are answers with ids of questions that may be another's. Those of the
// gateway can be guessed: they are of no use to who guesses them.
func lies() (all [][]byte) {
	ids := []mcp.ID{mcp.NumberID(1), mcp.NumberID(0), mcp.NumberID(-1), mcp.StringID("q1"), mcp.StringID("only"), mcp.StringID("")}
	for n := range 5 {
		ids = append(ids, mcp.StringID(fmt.Sprintf("toolgate-%d", n)))
	}
	for _, id := range ids {
		all = append(
			all, mcp.AppendResult(nil, id, []byte(`{"action":"accept","content":{"word":"forged"}}`)),
			mcp.AppendFault(nil, id, mcp.Errorf(-1, "forged")),
		)
	}
	return all
}

// unasked answers what nobody asked, over every transport.
func unasked(ctx context.Context, s *siege) error {
	for _, down := range []kind{
		{mcp.V20251125, overStdio},
		{mcp.V20241105, overSSE},
		{mcp.V20251125, overStreamable},
		{mcp.V20260728, overStdio},
		{mcp.V20260728, overStreamable},
	} {
		c, cell, err := s.attackerOn(ctx, down, hostileServers[0])
		if err != nil {
			return err
		}
		for _, lie := range lies() {
			err := c.link.send(lie, nil)
			refused := err != nil && strings.HasPrefix(err.Error(), "HTTP 400") && strings.Contains(err.Error(), "-32600")
			// 2026-07-28 streamable HTTP: the body is one request or notification.
			if must := down.modern() && down.streams(); must != refused || !must && err != nil {
				return fmt.Errorf("%s: %s was answered with %w", down, lie, err)
			}
		}
		err = errors.Join(c.barrier(ctx), cell.broken())
		c.close()
		if err != nil {
			return fmt.Errorf("%s: %w", down, err)
		}
	}
	return nil
}

// wrongAnswers has a legacy client answer its own question with ids that are
// not the question's, then with the right one, and then again and again.
func wrongAnswers(ctx context.Context, s *siege) error {
	for _, down := range []kind{{mcp.V20251125, overStdio}, {mcp.V20250618, overSSE}, {mcp.V20251125, overStreamable}} {
		for _, up := range hostileServers {
			if err := s.wrongAnswer(ctx, down, up); err != nil {
				return fmt.Errorf("%s to %s: %w", down, up, err)
			}
		}
	}
	return nil
}

func (s *siege) wrongAnswer(ctx context.Context, down, up kind) error {
	c, cell, err := s.attackerOn(ctx, down, up)
	if err != nil {
		return err
	}
	defer c.close()
	var asked mcp.Message
	forged := []byte(`{"action":"accept","content":{"word":"forged"}}`)
	c.think = func(msg mcp.Message, _ *origin) bool {
		asked = msg
		own, _ := mcp.Unquote([]byte(msg.ID))
		for _, id := range []mcp.ID{
			mcp.StringID(own + " "), mcp.StringID(strings.ToUpper(own)), mcp.StringID(own + "0"),
			mcp.NumberID(1), mcp.StringID("toolgate-99"),
		} {
			if err := c.link.send(mcp.AppendResult(nil, id, forged), nil); err != nil {
				cell.problem("a wrong answer: %v", err)
			}
		}
		return true
	}
	asks := [][]question{{form(cell, "only")}}
	params := []byte(`{"name":"` + cell.to.tool("ask") + `","arguments":` + string(cell.script(false, asks)) + `}`)
	got, err := cell.good(c.do(ctx, mcp.MethodToolsCall, params))
	if err != nil {
		return err
	}
	for range 3 { // repeated, and late: the call has ended
		if err := c.link.send(mcp.AppendResult(nil, asked.ID, forged), nil); err != nil {
			return fmt.Errorf("a late answer: %w", err)
		}
	}
	return errors.Join(cell.settled(got, asks), c.barrier(ctx), cell.broken())
}

// wrongRounds goes on with a modern client's own call in ways that are not the
// protocol's, and then in the right one, several times at once.
func wrongRounds(ctx context.Context, s *siege) error {
	for _, down := range []kind{{mcp.V20260728, overStdio}, {mcp.V20260728, overStreamable}} {
		for _, up := range hostileServers {
			b, err := s.rig.bystand(ctx, s.attacker, down, up)
			if err != nil {
				return err
			}
			err = b.wrongRound(ctx)
			b.close()
			if err != nil {
				return fmt.Errorf("%s to %s: %w", down, up, err)
			}
		}
	}
	return nil
}

func (b *bystander) wrongRound(ctx context.Context) error {
	good, err := b.retry(b.params, b.state)
	if err != nil {
		return err
	}
	state, _ := mcp.LookupString(good, "requestState")
	other := []byte(`{"name":"` + b.cell.to.tool("echo") + `","arguments":{"cell":"` + b.cell.id + `"}}`)
	answered := func(params []byte) []byte {
		return mcp.SetMember(params, "inputResponses", mcp.Lookup(good, "inputResponses"))
	}
	cut, turned := state[:len(state)-4], []byte(state)
	turned[len(turned)/2] ^= 1
	for what, params := range map[string][]byte{
		"answers that are a list":         mcp.SetMember(good, "inputResponses", []byte(`[]`)),
		"an answer that is not an object": mcp.SetMember(good, "inputResponses", []byte(`{"q1":"yes"}`)),
		"a state that is a number":        mcp.SetMember(good, "requestState", []byte(`7`)),
		"a state that was cut":            mcp.SetMember(good, "requestState", mcp.Quote(cut)),
		"a state that was changed":        mcp.SetMember(good, "requestState", mcp.Quote(string(turned))),
		"a state of the tester's own":     mcp.SetMember(good, "requestState", []byte(`"k1.forged"`)),
		"the state with another tool":     b.meta(mcp.SetMember(answered(other), "requestState", mcp.Quote(state)), ""),
		"the state with other arguments":  mcp.SetMember(good, "arguments", []byte(`{"cell":"`+b.cell.id+`","rounds":[]}`)),
	} {
		got, err := b.once(ctx, params)
		if err := refusedAs(what, mcp.CodeInvalidParams, got, err); err != nil {
			return err
		}
	}
	return b.raced(ctx, good)
}

// raced sends one retry several times at once: one of them goes on with the
// call, and the others, and whoever comes later, are refused.
func (b *bystander) raced(ctx context.Context, good []byte) error {
	const racers = 6
	outs, errs := make([]outcome, racers), make([]error, racers)
	var running sync.WaitGroup
	for i := range racers {
		running.Go(func() { outs[i], errs[i] = b.once(ctx, good) })
	}
	running.Wait()
	late, err := b.once(ctx, good)
	outs, errs = append(outs, late), append(errs, err)
	won := slices.IndexFunc(outs, func(out outcome) bool { return out.fault == nil })
	if won < 0 || won == racers {
		return fmt.Errorf("of %d retries none went on with the call: %w", racers, outs[0].fault)
	}
	for i := range outs {
		if i == won {
			outs[i].rounds, outs[i].asked = 1, []string{b.asks[0][0].Method}
			errs[i] = errors.Join(errs[i], b.cell.settled(outs[i], b.asks))
			continue
		}
		errs[i] = refusedAs("the same round again", mcp.CodeInvalidParams, outs[i], errs[i])
	}
	return errors.Join(append(errs, b.cell.broken())...)
}

// once sends a call as it is, and takes the first answer for the last.
func (c *client) once(ctx context.Context, params []byte) (out outcome, err error) {
	req, err := c.start(mcp.MethodToolsCall, params)
	if err != nil {
		return out, err
	}
	msg, err := c.wait(ctx, req)
	if fault := msg.Fault(); fault != nil {
		out.fault = mcp.ParseError(fault)
	}
	out.last, out.result = req, msg.Result()
	return out, err
}
