//go:build e2e

package matrix

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream"
)

const (
	crowdClients    = 50
	crowdPrincipals = 5
	crowdAtOnce     = 3 // calls that a client has in flight
	crowdTime       = 8 * time.Minute
)

// crowdServers are those of the interleaved calls: both eras, all transports.
var crowdServers = []kind{
	{mcp.V20241105, overStdio},
	{mcp.V20251125, overStdio},
	{mcp.V20241105, overSSE},
	{mcp.V20250618, overSSE},
	{mcp.V20250326, overStreamable},
	{mcp.V20251125, overStreamable},
	{mcp.V20260728, overStdio},
	{mcp.V20260728, overStreamable},
}

// crowdMounts are as a deployment has them: each principal its own connection
// to a legacy server, by default or because it is configured so, and modern
// servers shared or not.
func crowdMounts(k kind) []upstream.Isolation {
	if k.rev == mcp.V20251125 || k.modern() && k.over == overStdio {
		return []upstream.Isolation{upstream.IsolatePrincipal}
	}
	return []upstream.Isolation{upstream.IsolateAuto}
}

// errand is one call of the crowd.
type errand struct {
	plan

	guest  *guest
	cell   *cell
	asks   [][]question
	params []byte

	mu    sync.Mutex
	req   *request        // of its present round
	came  map[string]bool // keys of the questions that came
	gone  []string        // keys of those whose answers are on their way
	asked []string        // their methods
	hash  string          // of its arguments
	out   outcome
}

// guest is one client of the crowd.
type guest struct {
	*client

	crowd  *crowd
	worker int
	cell   *cell // of what belongs to no call

	mu   sync.Mutex
	open map[string]*errand // by the canary
}

// crowd is many clients that call at once. Its order comes from a seed.
type crowd struct {
	rig      *rig
	guests   []*guest
	happened atomic.Int64 // questions, answers, results: whatever a guest waits for

	mu   sync.Mutex
	done []*errand
	errs []error
}

// TestInterleavedCalls makes many calls of many clients at once, whose servers
// ask in between: every answer reaches its own call, none is lost or doubled,
// each leaves one audit entry with its rounds, and nothing is left running.
func TestInterleavedCalls(t *testing.T) {
	from := *seed
	if from == 0 {
		var raw [8]byte
		_, _ = rand.Read(raw[:]) // never fails
		from = binary.LittleEndian.Uint64(raw[:])>>1 + 1
	}
	home := daemontest.NewHome(t)
	var all []*errand
	t.Run("calls", func(t *testing.T) { // its end is the end of the rig, and the check for goroutines
		log := &logText{}
		r := startRig(t, setup{
			workers: crowdPrincipals, servers: crowdServers, mounts: crowdMounts, home: home, log: log,
			conns: 8, // the default, as all limits
		})
		c := &crowd{rig: r}
		ctx, cancel := context.WithTimeout(t.Context(), crowdTime)
		defer cancel()
		c.run(ctx, from)
		all = c.done
		for _, err := range c.errs {
			t.Error(err)
		}
		text := log.take()
		if t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", text[max(0, len(text)-20000):])
		}
		t.Logf("%d calls, %d things happened, at most %d processes at once", len(all), c.happened.Load(), r.processes.most())
		if left := r.strays(); len(left) > 0 {
			t.Errorf("outside of every call: %s", strings.Join(left, "\n"))
		}
	})
	if err := closedEntries(home, all); err != nil {
		t.Error(err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if t.Failed() {
		t.Logf("to repeat this order: go test -tags e2e ./internal/matrix -run TestInterleavedCalls -calls %d -seed %d", *calls, from)
	}
}

func (c *crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && len(c.errs) < 20 {
		c.errs = append(c.errs, err)
	}
}

// run connects the guests, lets each principal be asked once by every server,
// and then makes all calls.
func (c *crowd) run(ctx context.Context, from uint64) {
	for i := range crowdClients {
		k := kinds()[i%len(kinds())]
		g := &guest{crowd: c, worker: i % crowdPrincipals, open: make(map[string]*errand)}
		conn, err := c.rig.connect(ctx, k, c.rig.workers[g.worker], fmt.Sprintf("guest-%d", i), declared(k))
		if err != nil {
			c.fail(fmt.Errorf("guest %d: %w", i, err))
			return
		}
		defer conn.close()
		g.client, conn.think = conn, g.think
		g.cell = &cell{down: k, client: conn}
		c.rig.board.open(g.cell)
		conn.mu.Lock()
		conn.cell = g.cell
		conn.mu.Unlock()
		c.guests = append(c.guests, g)
	}
	first, plans := plansOf(from, max(*calls, len(crowdServers)*crowdPrincipals))
	// A server that has never asked on a shared channel is not known to do so,
	// and only one that is known is called one at a time from the start.
	var running sync.WaitGroup
	for i := range crowdPrincipals {
		running.Go(func() { c.work(ctx, c.guests[i], first[i]) })
	}
	running.Wait()
	for i, g := range c.guests {
		running.Go(func() { c.work(ctx, g, plans[i]) })
	}
	running.Wait()
	for _, g := range c.guests {
		c.fail(g.barrier(ctx)) // an answer too many has come by now
	}
	for _, g := range c.guests {
		c.fail(g.cell.broken())
	}
	for _, e := range c.done {
		c.fail(e.cell.broken())
	}
}

// work makes the calls of a guest, some at once.
func (c *crowd) work(ctx context.Context, g *guest, plans []plan) {
	queue := make(chan plan, len(plans))
	for _, p := range plans {
		queue <- p
	}
	close(queue)
	var running sync.WaitGroup
	for range crowdAtOnce {
		running.Go(func() {
			for p := range queue {
				e := &errand{plan: p, guest: g, came: make(map[string]bool)}
				c.fail(e.run(ctx))
				c.happened.Add(1)
				c.mu.Lock()
				c.done = append(c.done, e)
				c.mu.Unlock()
			}
		})
	}
	running.Wait()
}

// broken are the rules that were broken in a cell.
func (c *cell) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	for _, p := range c.problems {
		all = append(all, fmt.Errorf("%s from %s: %s", c.id, c.down, p))
	}
	return errors.Join(all...)
}

// run makes one call to its end and holds the result to the call.
func (e *errand) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, *cellTime)
	defer cancel()
	g, r := e.guest, e.guest.crowd.rig
	e.cell = &cell{down: g.kind, to: r.targets[e.to][crowdMounts(e.to)[0]], client: g.client}
	r.board.open(e.cell)
	e.prepare()
	g.mu.Lock()
	g.open[e.cell.id] = e
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.open, e.cell.id)
		g.mu.Unlock()
	}()
	err := e.rounds(ctx)
	if err == nil {
		_, err = e.cell.good(e.out, nil)
	}
	if err == nil {
		err = e.settled()
	}
	if err != nil {
		e.mu.Lock()
		err = fmt.Errorf("%s of %s to %s (%s, %v, asked %v, answered %v): %w", e.method, g.kind, e.to, e.cell.id, e.shape, e.came, e.gone, err)
		e.mu.Unlock()
	}
	return err
}

// rounds makes the call, for a modern client in as many rounds as it takes.
func (e *errand) rounds(ctx context.Context) error {
	g := e.guest
	full := g.meta(e.params, "")
	for {
		req := g.newRequest(e.method, full)
		e.mu.Lock()
		e.req = req
		e.mu.Unlock()
		if err := g.launch(req); err != nil {
			return err
		}
		msg, err := g.wait(ctx, req)
		if err != nil {
			return err
		}
		e.out.last, e.out.result = req, msg.Result()
		if fault := msg.Fault(); fault != nil {
			e.out.fault = mcp.ParseError(fault)
		}
		if kind, _ := mcp.LookupString(e.out.result, "resultType"); kind != mcp.ResultInputRequired {
			return nil
		}
		if e.out.rounds++; e.out.rounds > mostRounds {
			return errors.New("there is no end to the rounds")
		}
		requests := mcp.Lookup(e.out.result, "inputRequests")
		for m := range mcp.Members(requests) {
			ask := m.Value.Of(requests)
			method, _ := mcp.LookupString(ask, "method")
			if err := e.note(method, mcp.Lookup(ask, "params")); err != nil {
				return err
			}
		}
		g.others(ctx, e.pauses[e.out.rounds%len(e.pauses)])
		if full, err = g.retry(e.params, e.out.result); err != nil {
			return err
		}
	}
}

// canary reads the id of a call and the key of a question out of it.
func canary(method string, params []byte) (id, key string) {
	said, _ := mcp.LookupString(params, "message")
	if method == mcp.MethodSampling {
		messages := mcp.Lookup(params, "messages")
		for e := range mcp.Elements(messages) {
			said, _ = mcp.LookupString(e.Of(messages), "content", "text")
		}
	}
	if _, rest, named := strings.Cut(said, "] "); named { // the server that asks
		said = rest
	}
	id, key, _ = strings.Cut(said, " ")
	return id, key
}

// note takes a question of the call, which must be its own and new.
func (e *errand) note(method string, params []byte) error {
	id, key := canary(method, params)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case id != e.cell.id:
		return fmt.Errorf("the call %s is asked what %s should be: %s", e.cell.id, id, params)
	case e.came[key]:
		return fmt.Errorf("the question %s came twice: %s", key, params)
	}
	e.came[key] = true
	e.asked = append(e.asked, method)
	return nil
}

// think takes a question to a legacy client and answers it once other things
// have happened.
func (g *guest) think(msg mcp.Message, from *origin) bool {
	id, key := canary(msg.Method, msg.Params())
	g.mu.Lock()
	e := g.open[id]
	g.mu.Unlock()
	if e == nil {
		g.cell.problem("a question of no call of this client: %s", msg.Raw)
		return true
	}
	if err := e.note(msg.Method, msg.Params()); err != nil {
		g.cell.problem("%v", err)
	}
	e.mu.Lock()
	own := from == nil || from.req == e.req
	e.mu.Unlock()
	if !own {
		g.cell.problem("a question on the stream of another call: %s", msg.Raw)
	}
	ctx, cancel := context.WithTimeout(g.life, *cellTime)
	defer cancel()
	g.others(ctx, e.pauses[len(key)%len(e.pauses)])
	e.mu.Lock()
	e.gone = append(e.gone, key)
	e.mu.Unlock()
	return true
}

// others returns when a number of other things have happened, to which the
// guest adds some itself so that there is an end to it.
func (g *guest) others(ctx context.Context, n int64) {
	happened := &g.crowd.happened
	until := happened.Add(1) + n
	for happened.Load() < until {
		if err := g.barrier(ctx); err != nil {
			g.cell.problem("while a question waits: %v", err)
			return
		}
		happened.Add(1)
	}
}

// prepare makes the request and notes what the audit log will say of it.
func (e *errand) prepare() {
	c := e.cell
	for i, round := range e.shape {
		var questions []question
		for j, choice := range round {
			key := strings.Repeat("k", i+1) + fmt.Sprint(j)
			questions = append(questions, e.question(choice, key))
		}
		e.asks = append(e.asks, questions)
	}
	written := c.script(false, e.asks)
	hashed := written
	switch e.method {
	case mcp.MethodToolsCall:
		e.params = []byte(`{"name":"` + c.to.tool("ask") + `","arguments":` + string(written) + `}`)
	case mcp.MethodPromptsGet:
		hashed = []byte(`{"script":` + string(mcp.Quote(string(written))) + `}`)
		e.params = []byte(`{"name":"` + c.to.tool("ask") + `","arguments":` + string(hashed) + `}`)
	case mcp.MethodRead:
		hashed = mcp.Quote(c.to.uri(askURI(written)))
		e.params = []byte(`{"uri":` + string(hashed) + `}`)
	}
	sum := mcp.Hash(hashed)
	e.hash = hex.EncodeToString(sum[:])
}

// question makes one of the kinds of questions that both sides know.
func (e *errand) question(choice int, key string) question {
	c := e.cell
	switch {
	case choice == 0 || !c.elicits():
		return sampling(c, key)
	case choice == 1 && c.down.rev >= mcp.V20251125 && c.to.kind.rev >= mcp.V20251125:
		return visit(c, key)
	}
	return form(c, key)
}

// settled holds what came back to the call: each question once, each answer in
// its place, the tool run once.
func (e *errand) settled() error {
	e.mu.Lock()
	e.out.asked = e.asked
	e.mu.Unlock()
	if err := e.cell.settled(e.out, e.asks); err != nil {
		return err
	}
	e.cell.mu.Lock()
	defer e.cell.mu.Unlock()
	if n := len(e.cell.said["begun"]); n != 1 {
		return fmt.Errorf("the server ran it %d times", n)
	}
	return nil
}

// questions is how many the server asked.
func (e *errand) questions() (n int) {
	for _, round := range e.asks {
		n += len(round)
	}
	return n
}

// closedEntries holds the audit log to the calls: one entry each, and no other.
func closedEntries(home *daemontest.Home, all []*errand) error {
	entries, err := written(home)
	if err != nil {
		return err
	}
	byHash := make(map[string]audit.Entry)
	ids := make(map[string]bool)
	var errs []error
	for _, entry := range entries {
		if _, twice := byHash[entry.ArgsHash]; twice || ids[entry.CallID] {
			errs = append(errs, fmt.Errorf("a second entry: %+v", entry))
		}
		byHash[entry.ArgsHash], ids[entry.CallID] = entry, true
	}
	if len(entries) != len(all) {
		errs = append(errs, fmt.Errorf("%d audit entries of %d calls", len(entries), len(all)))
	}
	for _, e := range all {
		rounds := e.out.rounds
		if !e.guest.kind.modern() {
			rounds = e.questions()
		}
		got, ok := byHash[e.hash]
		want := fmt.Sprint("ok ", e.method, " worker", e.guest.worker, " ", e.guest.name, " ", e.cell.to.namespace(), " ", rounds)
		is := fmt.Sprint(got.Outcome, " ", got.Method, " ", got.Principal.Subject, " ", got.Client.Name, " ", got.Server, " ", got.Rounds)
		if (!ok || is != want) && len(errs) < 20 {
			errs = append(errs, fmt.Errorf("the audit entry of %s is %q (%s), not %q", e.cell.id, is, got.Reason, want))
		}
	}
	return errors.Join(errs...)
}
