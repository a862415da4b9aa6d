// Package composite is the phase of tools that are made of calls of other tools. A caller
// may view and call such a tool only if it may view and call each of those, or if a capsule
// may that the operator lends to the tool.
package composite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Name is the name of the phase.
const Name = "steps"

// Tool is a tool by its server and its name there.
type Tool struct{ Server, Original string }

// Options are what a phase is made of. All are required.
type Options struct {
	// Of holds the exposed names of all that a tool calls, and of all that these call.
	Of map[Tool][]string
	// RunAs holds the capsules that are lent to tools, for their calls. nil lends nothing.
	RunAs map[Tool]string
	// Views decides whether the caller may view a tool that is called. Calls returns what
	// decides whether the caller may call it, whatever the arguments are. Neither contains
	// this phase.
	Views *gate.Chain
	Calls func() *gate.Chain
	// Fits returns what the calls that a tool makes itself of another one have wrong for the
	// definition of that one. nil looks at nothing.
	Fits func(of Tool, call string, definition []byte) []Misfit
}

// Phase implements [gate.Phase]. It abstains for every tool that calls no others. Until it
// has learnt what there is, it denies those that do. It is safe for concurrent use.
type Phase struct {
	o     Options
	known atomic.Pointer[catalog]

	mu     sync.Mutex // guards pinned
	pinned *Phase     // what was pinned last
}

// catalog is what there is of the tools that are called.
type catalog struct {
	// parts are by exposed name. Where several servers offer a name, a client gets one of
	// them, and all of them count here.
	parts    map[string][]Part
	misfits  map[Tool][]Misfit // by the tool that makes the calls
	revision uint64
}

// Part is a tool that another one calls.
type Part struct {
	gate.Capability
	Definition []byte // as its server listed it
}

// New returns the phase.
func New(o Options) *Phase {
	p := &Phase{o: o}
	p.known.Store(&catalog{})
	return p
}

// Learn takes what the servers list from now on.
func (p *Phase) Learn(offers []*gate.Offer) {
	parts := make(map[string][]Part)
	for _, names := range p.o.Of {
		for _, name := range names {
			parts[name] = nil
		}
	}
	namespaces := make(map[string]bool)
	for _, o := range offers {
		namespaces[o.Namespace] = true
	}
	for _, o := range offers {
		for i := range o.Items {
			item := &o.Items[i]
			if _, called := parts[item.Exposed]; !called || item.Kind != mcp.Tool || item.Withheld {
				continue
			}
			// A server without a namespace gets no names in that of another one.
			if of, _, in := strings.Cut(item.Exposed, "__"); in && o.Namespace == "" && (of != "" && namespaces[of] || of == gate.OwnNamespace && !o.Native) {
				continue
			}
			parts[item.Exposed] = append(parts[item.Exposed], Part{gate.Capability{
				Kind: item.Kind, Server: o.Server, Original: item.Original, Exposed: item.Exposed, Unsuffixed: item.Unsuffixed, CapabilityID: item.CapabilityID,
			}, item.Definition})
		}
	}
	maps.DeleteFunc(parts, func(_ string, found []Part) bool { return len(found) == 0 })
	old := p.known.Load()
	if maps.EqualFunc(old.parts, parts, func(a, b []Part) bool { return slices.EqualFunc(a, b, same) }) {
		return
	}
	p.known.Store(&catalog{parts, p.misfits(parts), old.revision + 1})
}

func same(a, b Part) bool {
	return a.Capability == b.Capability && string(a.Definition) == string(b.Definition)
}

// Parts returns what a tool calls, nil for each that is not there, and whether the tool
// calls others at all. What those call that call others themselves is among the rest.
func (p *Phase) Parts(of Tool) (parts []*Part, composite bool) {
	if p == nil {
		return nil, false
	}
	names, composite := p.o.Of[of]
	known := p.known.Load()
	for _, name := range names {
		if len(known.parts[name]) == 0 {
			parts = append(parts, nil)
		}
		for _, part := range known.parts[name] {
			parts = append(parts, &part)
		}
	}
	return parts, composite
}

// Part implements [gate.Phase].
func (p *Phase) Part() gate.Part {
	return gate.Part{
		Name: Name, Check: p.check,
		Snapshot: func(r *gate.Request) any {
			if r == nil || p.called(r) != nil {
				return nil // it depends on what the others decide
			}
			return p
		},
		ViewClass: func(id *gate.Identity) (string, bool) {
			class, cacheable := p.o.Views.Class(id)
			return strconv.FormatUint(p.known.Load().revision, 36) + ":" + class, cacheable
		},
		Pin: func() (gate.Part, any) {
			now := p.pin()
			return now.Part(), now
		},
	}
}

// pin returns a phase that goes on deciding as this one does now: the same one while nothing
// changes.
func (p *Phase) pin() *Phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	views, known := p.o.Views.Pin(), p.known.Load()
	if p.pinned == nil || !p.pinned.o.Views.Same(views) || p.pinned.known.Load() != known {
		p.pinned = New(Options{Of: p.o.Of, RunAs: p.o.RunAs, Views: views, Calls: p.o.Calls})
		p.pinned.known.Store(known)
	}
	return p.pinned
}

// called returns the names of what a request's tool calls; nil for none.
func (p *Phase) called(r *gate.Request) []string {
	if r.Kind != mcp.Tool || r.Action == gate.Enable {
		return nil
	}
	return p.o.Of[Tool{r.Server, r.Original}]
}

func (p *Phase) check(ctx context.Context, r *gate.Request) (gate.Decision, error) {
	known, calls := p.known.Load(), p.o.Calls()
	who, capsule := r.Identity, r.Capsule
	if lent := p.o.RunAs[Tool{r.Server, r.Original}]; lent != "" && who != nil {
		who, capsule = who.Borrowing(lent), lent
	}
	for _, name := range p.called(r) {
		if len(known.parts[name]) == 0 {
			return gate.Decision{Reason: fmt.Sprintf("it calls %s, which is not there", name)}, nil
		}
		for _, part := range known.parts[name] {
			view := part.Request(gate.View, who, capsule)
			if d := p.o.Views.Decide(ctx, &view); d.Effect != gate.Allow {
				return denied(name, "view", &d)
			}
			call := part.Request(gate.Call, who, capsule)
			// Without the phases that look at arguments there may be none that allows anything.
			if d := calls.Decide(ctx, &call); d.Effect != gate.Allow && (d.Phase != "" || d.Err != nil) {
				return denied(name, "call", &d)
			}
		}
	}
	return gate.Decision{Effect: gate.Abstain}, nil
}

func denied(name, what string, d *gate.Decision) (gate.Decision, error) {
	if d.Err != nil {
		return gate.Decision{Reason: d.Reason}, d.Err
	}
	return gate.Decision{Reason: fmt.Sprintf("it calls %s, which the caller may not %s: %s: %s", name, what, d.Phase, d.Reason)}, nil
}
