//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream"
)

// bystander is one client in the middle of a call whose server has asked it
// something. Whatever somebody else does meanwhile must not change how the call
// ends.
type bystander struct {
	*client

	cell   *cell
	asks   [][]question
	params []byte
	req    *request
	state  []byte        // the result that asks a modern client; else nil
	asked  mcp.Message   // the question to a legacy client
	answer chan struct{} // closed when a legacy client may answer
}

// bystand brings a client of a worker to where it is asked.
func (r *rig) bystand(ctx context.Context, w worker, down, up kind) (*bystander, error) {
	c, err := r.connect(ctx, down, w, "bystander-"+down.slug(), declared(down))
	if err != nil {
		return nil, err
	}
	b := &bystander{client: c, answer: make(chan struct{})}
	b.cell = r.cellOf(c, up)
	b.asks = [][]question{{b.cell.other("only")}}
	b.params = []byte(`{"name":"` + b.cell.to.tool("ask") + `","arguments":` + string(b.cell.script(false, b.asks)) + `}`)
	came := make(chan mcp.Message, 1)
	c.think = func(msg mcp.Message, _ *origin) bool {
		came <- msg
		select {
		case <-b.answer:
			return true
		case <-c.life.Done():
			return false
		}
	}
	if b.req, err = c.start(mcp.MethodToolsCall, c.meta(b.params, "")); err != nil {
		return nil, err
	}
	if down.modern() {
		msg, err := c.wait(ctx, b.req)
		if b.state = msg.Result(); err == nil && mcp.Lookup(b.state, "requestState") == nil {
			err = fmt.Errorf("%s from %s was not asked: %s", up, down, msg.Raw)
		}
		return b, err
	}
	select {
	case b.asked = <-came:
		return b, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s from %s was not asked: %w", up, down, context.Cause(ctx))
	}
}

// cellOf opens a cell between a client and a server, where what is broken on
// either side is noted.
func (r *rig) cellOf(c *client, up kind) *cell {
	cell := &cell{down: c.kind, to: r.targets[up][upstream.IsolateAuto], client: c}
	r.board.open(cell)
	c.mu.Lock()
	c.cell = cell
	c.mu.Unlock()
	return cell
}

// leave ends the bystander's call and tells what is wrong with its end.
func (b *bystander) leave(ctx context.Context) error {
	defer b.close()
	out := outcome{asked: []string{b.asks[0][0].Method}}
	close(b.answer)
	if b.state != nil {
		out.rounds = 1
		again, err := b.retry(b.params, b.state)
		if err != nil {
			return err
		}
		if b.req, err = b.start(mcp.MethodToolsCall, again); err != nil {
			return err
		}
	}
	msg, err := b.wait(ctx, b.req)
	if err != nil {
		return err
	}
	out.result = msg.Result()
	if fault := msg.Fault(); fault != nil {
		out.fault = mcp.ParseError(fault)
	}
	if out, err = b.cell.good(out, nil); err == nil {
		err = b.cell.settled(out, b.asks)
	}
	if err == nil {
		err = b.barrier(ctx) // an answer too many has come by now
	}
	return errors.Join(err, b.cell.broken())
}
