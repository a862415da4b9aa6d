package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

// script is a backend in memory that answers as the test says.
type script struct {
	name  string
	reply func(ctx context.Context, call *mcp.Call) (mcp.Answer, error)

	mu      sync.Mutex
	listing *mcp.Listing
	status  mcp.Status
	got     []mcp.Call
	ended   []string
}

func (b *script) Name() string                { return b.name }
func (b *script) Probe(context.Context) error { return nil }

func (b *script) Listing() (*mcp.Listing, mcp.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listing, b.status
}

func (b *script) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	seen := *call
	seen.Params = bytes.Clone(call.Params)
	b.mu.Lock()
	b.got = append(b.got, seen)
	b.mu.Unlock()
	if b.reply == nil {
		return answered(b.era(), `{}`), nil
	}
	return b.reply(ctx, call)
}

func (b *script) EndSession(principal, session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended, principal+" "+session)
}

func (b *script) era() mcp.Era {
	l, _ := b.Listing()
	if l == nil {
		return mcp.Legacy
	}
	return l.Era
}

// seen returns the calls of a method, all of them for an empty one.
func (b *script) seen(method string) []mcp.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []mcp.Call
	for _, c := range b.got {
		if method == "" || c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// offer replaces the backend's lists: lines with a kind and an item's JSON.
func (b *script) offer(t testing.TB, era mcp.Era, capabilities string, items ...string) {
	t.Helper()
	l := &mcp.Listing{Era: era, Capabilities: []byte(capabilities), Items: map[mcp.Kind][]mcp.Item{}}
	for _, line := range items {
		word, raw, _ := strings.Cut(line, " ")
		i := slices.IndexFunc(mcp.Kinds[:], func(c mcp.Kind) bool { return c.String() == word })
		if i < 0 {
			t.Fatalf("%q names no kind", line)
		}
		item, err := mcp.ParseItem(mcp.Kinds[i], []byte(raw))
		if err != nil {
			t.Fatalf("item %s: %v", raw, err)
		}
		l.Items[mcp.Kinds[i]] = append(l.Items[mcp.Kinds[i]], item)
	}
	b.mu.Lock()
	b.listing, b.status = l, mcp.Status{State: mcp.Ready}
	b.mu.Unlock()
}

// everything is the capabilities of a server that offers everything.
const everything = `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}`

// newScript returns a backend with a few items.
func newScript(t testing.TB, name string, era mcp.Era, items ...string) *script {
	t.Helper()
	b := &script{name: name}
	b.offer(t, era, everything, items...)
	return b
}

func tool(name string) string { return `tool {"name":"` + name + `","inputSchema":{"type":"object"}}` }

func answered(era mcp.Era, raw string) mcp.Answer {
	return mcp.Answer{Result: []byte(raw), Era: era}
}

func fault(era mcp.Era, raw string) mcp.Answer {
	return mcp.Answer{Fault: mcp.ParseError([]byte(raw)), Era: era}
}

// journal records events in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// clear removes all events.
func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = nil
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// ledger is an auditor in memory. It panics when the end of a call that began is
// recorded as its only entry, or the other way round.
type ledger struct {
	journal *journal

	mu      sync.Mutex
	entries []audit.Entry
	begun   []audit.Entry
	down    error
	refuses error // refuses the beginning of calls
}

func (l *ledger) Begin(e *audit.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses == nil {
		l.begun = append(l.begun, kept(e))
	}
	return l.refuses
}

func (l *ledger) End(e *audit.Entry) error    { return l.ends(e, true) }
func (l *ledger) Append(e *audit.Entry) error { return l.ends(e, false) }

func (l *ledger) ends(e *audit.Entry, begun bool) error {
	l.journal.add("audit %s", e.Outcome)
	l.mu.Lock()
	defer l.mu.Unlock()
	if has := slices.ContainsFunc(l.begun, func(b audit.Entry) bool { return b.CallID == e.CallID }); has != begun {
		panic(fmt.Sprintf("the call %s began: %v, and ends as if: %v", e.CallID, has, begun))
	}
	l.entries = append(l.entries, kept(e))
	return nil
}

// kept is an entry with memory of its own: that of the call is used again.
func kept(e *audit.Entry) audit.Entry {
	own := *e
	own.Steps = slices.Clone(e.Steps)
	return own
}

func (l *ledger) Healthy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

func (l *ledger) all() []audit.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// outcomes are the outcomes of all entries, in order.
func (l *ledger) outcomes() []audit.Outcome {
	var out []audit.Outcome
	for _, e := range l.all() {
		out = append(out, e.Outcome)
	}
	return out
}

// rule is a phase of the gate as a function.
type rule func(ctx context.Context, r *gate.Request) (gate.Decision, error)

func (f rule) Part() gate.Part { return gate.Part{Name: "rule", Check: f.Check} }
func (f rule) Check(ctx context.Context, r *gate.Request) (gate.Decision, error) {
	return f(ctx, r)
}

// person is an identity for tests.
func person(name string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "test", Subject: name}})
}

// bearers authenticates `Bearer NAME` for the people it knows.
type bearers map[string]*gate.Identity

func (n bearers) Authenticate(r *http.Request) (*gate.Identity, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return nil, gate.ErrNoCredential
	}
	name, _ := strings.CutPrefix(header, "Bearer ")
	if id := n[name]; id != nil {
		return id, nil
	}
	return nil, gate.ErrBadCredential
}

// rig is a gateway with everything around it in memory.
type rig struct {
	*Gateway
	t       testing.TB
	journal *journal
	ledger  *ledger
	log     *syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// drain returns what was written since the last call.
func (b *syncBuffer) drain() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.String()
	b.buf.Reset()
	return s
}

var testKey = seal.Key{ID: "k1", Secret: bytes.Repeat([]byte{7}, 32)}

// newRig makes a gateway that serves the mounts to alice and bob, with an open gate and
// no budget. The changes are applied before it serves.
func newRig(t testing.TB, mounts []Mount, changes ...func(*Options, *Config)) *rig {
	t.Helper()
	keys, err := seal.NewKeyring(testKey)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, journal: &journal{}, log: &syncBuffer{}}
	r.ledger = &ledger{journal: r.journal}
	people := bearers{"alice": person("alice"), "bob": person("bob")}
	opts := Options{
		Authenticator: people, Auditor: r.ledger, Keys: keys, Version: "1.0.0",
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	config := Config{Mounts: mounts, Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited()}
	for _, change := range changes {
		change(&opts, &config)
	}
	if r.Gateway, err = New(opts); err != nil {
		t.Fatal(err)
	}
	r.instance = "call"
	r.Apply(config)
	return r
}

// run keeps the gateway running until the test ends.
func (r *rig) run() *rig {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	return r
}

// awaited returns how many calls wait for their next round, and how many displaced ones
// are remembered.
func (r *rig) awaited() (open, displaced int) {
	m := &r.rounds
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(len(m.open), len(m.suspendedOf), len(m.suspendedAt), len(m.of)), len(m.displaced)
}

// mounted mounts backends under their own names.
func mounted(backends ...*script) []Mount {
	mounts := make([]Mount, 0, len(backends))
	for _, b := range backends {
		mounts = append(mounts, Mount{
			Backend: b, Namespace: b.name, Questions: Questions{Sampling: true, Elicitation: true, Roots: true},
		})
	}
	return mounts
}

var errBoom = errors.New("boom")

// hide hides the items with these original names from everybody, and forbid forbids
// calling them.
func hide(originals ...string) func(*Options, *Config)   { return refuse(gate.View, originals) }
func forbid(originals ...string) func(*Options, *Config) { return refuse(gate.Call, originals) }

func refuse(action gate.Action, originals []string) func(*Options, *Config) {
	return func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			if slices.Contains(originals, r.Original) && r.Action == action {
				return gate.Decision{Effect: gate.Deny, Reason: "it is not for you"}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	}
}

// patience bounds every wait of these tests; no test waits for it to pass.
const patience = 10 * time.Second
