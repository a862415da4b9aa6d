package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
)

const (
	// maxHidden is how long after the event of its Watch stream a removed relation
	// may still let a tool be listed, in ms.
	maxHidden = 100.0
	// hiddenTime bounds the wait for a list that follows a change.
	hiddenTime = 10 * time.Second
	// wavering is the tool whose relation comes and goes.
	wavering = "echo"
)

// benchRelations removes a relation again and again, and measures how long after
// SpiceDB has sent the event of it the first list comes without the tool. The
// client lists all the time, so that there is a kept answer to drop.
func benchRelations(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	e, err := openEvents(ctx)
	if err != nil {
		return nil, err
	}
	defer e.close()
	g := gated{policy: plainPolicy}
	r.token = "bench-key-0"
	m := mounts{"fast": up.url + "/mcp"}
	if r.extra, err = g.settings(r.dir, m, []string{r.token}); err != nil {
		return nil, err
	}
	r.extra["spicedb"] = map[string]any{"endpoint": e.address, "tls": false}
	relation := func(tool string) string { return "tool:" + tool + "#executor@user:" + subject(0) }
	for _, tool := range []string{wavering, "ask", "blob"} {
		e.write(relation(tool))
	}
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, ownTools); err != nil {
		return nil, err
	}
	c := newClient(gate.url+"/mcp", s.era, "")
	c.authorize(r.token)
	defer c.close()
	if err := c.open(ctx); err != nil {
		return nil, gate.failure(err)
	}
	var late series
	for range n.removals {
		token := e.remove(relation(wavering))
		if err := listsTools(ctx, c, ownTools-1); err != nil {
			return nil, gate.failure(err)
		}
		hidden := time.Now()
		if sent, ok := e.sent(token); ok {
			late = append(late, millis(hidden.Sub(sent), 1))
		} else { // a list that had to ask anyway was told before the event was sent
			late = append(late, 0)
		}
		e.write(relation(wavering))
		if err := listsTools(ctx, c, ownTools); err != nil {
			return nil, gate.failure(err)
		}
	}
	return []row{{
		name: fmt.Sprintf("relation removed to hidden tool, from the event, %d times", len(late)), toolgate: late.both("ms"),
		limit: fmt.Sprintf("%v ms", maxHidden), verdict: within(late.median(), maxHidden),
	}, {
		name: "- the slowest", toolgate: fmt.Sprintf("%.1f ms", slices.Max(late)),
	}}, nil
}

// listsTools lists until there are so many tools.
func listsTools(ctx context.Context, c *client, want int) error {
	for end := time.Now().Add(hiddenTime); ; {
		have, err := c.tools(ctx)
		if err != nil || have == want {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("lists %d tools after %v, want %d", have, hiddenTime, want)
		}
	}
}

// events are a SpiceDB of this process that notes when it sends its events.
type events struct {
	*stage
	server  *spicedbtest.Server
	address string

	mu   sync.Mutex
	when map[string]time.Time // by token
}

func openEvents(ctx context.Context) (e *events, err error) {
	e = &events{stage: &stage{ctx: ctx}, server: spicedbtest.NewServer(), when: map[string]time.Time{}}
	defer e.caught(&err)
	e.server.BeforeEvent(func(token string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, known := e.when[token]; !known { // another stream may send it, too
			e.when[token] = time.Now()
		}
	})
	e.address = e.server.Start(e.stage)
	return e, nil
}

func (e *events) write(relation string) { e.server.Write(e.stage, relation) }

// remove removes a relation and returns the token of the event.
func (e *events) remove(relation string) string { return e.server.Delete(e.stage, relation) }

// sent is when an event was sent.
func (e *events) sent(token string) (at time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok = e.when[token]
	return at, ok
}

// stage stands in for the test that the server is made for.
type stage struct {
	testing.TB
	ctx  context.Context
	ends []func()
}

// fatal is what a stage ends with.
type fatal struct{ error }

func (*stage) Helper() {}

func (s *stage) Context() context.Context { return s.ctx }

func (s *stage) Cleanup(end func()) { s.ends = append(s.ends, end) }

func (s *stage) Fatal(args ...any) { panic(fatal{fmt.Errorf("%s", fmt.Sprint(args...))}) }

func (s *stage) Fatalf(format string, args ...any) { panic(fatal{fmt.Errorf(format, args...)}) }

// close ends what was begun.
func (s *stage) close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// caught turns the end of a stage into an error.
func (s *stage) caught(err *error) {
	p := recover()
	if p == nil {
		return
	}
	f, ok := p.(fatal)
	if !ok {
		panic(p)
	}
	*err = f.error
	s.close()
}
