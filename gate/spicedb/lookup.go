package spicedb

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"
)

const (
	// maxLookups is how many lookups a generation caches.
	maxLookups = 4096
	// maxLookupIDs is how many different objects a generation's lookups may
	// name in all. A subject with more is asked about in bulk.
	maxLookupIDs = 1 << 17
	// maxConditional is how many objects of a lookup are cached with the
	// context that they lack, for the reason.
	maxConditional = 1000
)

// errManyIDs ends a lookup that names more objects than are cached.
var errManyIDs = errors.New("the lookup names too many objects")

// lookup is every object of one type on which a caller has a permission.
type lookup struct {
	done chan struct{} // closed when what follows is set
	err  error

	allowed     []uint64            // a bit for each id that is allowed, by its number in index
	index       *ids                // of the generation
	conditional map[string][]string // ids to the missing context
	revision    string
	asked       time.Duration
	untyped     bool // the schema does not define the type
}

// ids numbers object ids, so that a set of them is some bits.
type ids struct {
	mu      sync.RWMutex
	numbers map[string]uint32
}

// number returns the number of an id, a new one if need be.
func (n *ids) number(id string) (uint32, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.numbers[id]; ok {
		return at, true
	}
	if len(n.numbers) >= maxLookupIDs {
		return 0, false
	}
	at := uint32(len(n.numbers))
	n.numbers[strings.Clone(id)] = at
	return at, true
}

// find returns the number of an id that has one.
func (n *ids) find(id string) (uint32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	at, ok := n.numbers[id]
	return at, ok
}

// lookups are those of one generation.
type lookups struct {
	index  ids
	mu     sync.Mutex
	cached map[string]*lookup
}

func newLookups() *lookups {
	return &lookups{index: ids{numbers: map[string]uint32{}}, cached: map[string]*lookup{}}
}

// start returns the lookup for a key; begin tells that it is the caller's to
// make. One that ended and is not good any more is begun again.
func (l *lookups) start(key string, good func(*lookup) bool) (found *lookup, begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.cached[key]; found != nil {
		select {
		case <-found.done:
			if good(found) {
				return found, false
			}
		default:
			return found, false
		}
	}
	if len(l.cached) >= maxLookups {
		clear(l.cached)
	}
	found = &lookup{done: make(chan struct{}), index: &l.index}
	l.cached[key] = found
	return found, true
}

// peek returns a lookup that is there and good.
func (l *lookups) peek(key string, good func(*lookup) bool) *lookup {
	l.mu.Lock()
	found := l.cached[key]
	l.mu.Unlock()
	if found == nil {
		return nil
	}
	select {
	case <-found.done:
		if good(found) {
			return found
		}
	default:
	}
	return nil
}

// answer is what the lookup says about one object.
func (l *lookup) answer(q question) answer {
	a := answer{revision: l.revision, asked: l.asked}
	if at, ok := l.index.find(q.object.id); ok && int(at/64) < len(l.allowed) && l.allowed[at/64]&(1<<(at%64)) != 0 {
		a.allow = true
		return a
	}
	if missing, ok := l.conditional[q.object.id]; ok {
		a.reason = conditional(q, missing)
		return a
	}
	a.reason = refused(q)
	if l.untyped {
		a.reason = noType(q.object.kind)
	}
	return a
}

// add notes one object.
func (l *lookup) add(found *v1.LookupResourcesResponse) error {
	if l.revision == "" {
		l.revision = found.GetLookedUpAt().GetToken()
	}
	switch found.GetPermissionship() {
	case v1.LookupPermissionship_LOOKUP_PERMISSIONSHIP_HAS_PERMISSION:
		at, ok := l.index.number(found.GetResourceObjectId())
		if !ok {
			return errManyIDs
		}
		for int(at/64) >= len(l.allowed) {
			l.allowed = append(l.allowed, 0)
		}
		l.allowed[at/64] |= 1 << (at % 64)
	case v1.LookupPermissionship_LOOKUP_PERMISSIONSHIP_CONDITIONAL_PERMISSION:
		if l.conditional == nil {
			l.conditional = map[string][]string{}
		}
		if len(l.conditional) < maxConditional {
			l.conditional[found.GetResourceObjectId()] = found.GetPartialCaveatInfo().GetMissingRequiredContext()
		}
	default:
	}
	return nil
}

// run reads the lookup from the server.
func (l *lookup) run(ctx context.Context, p *Phase, req *v1.LookupResourcesRequest, doing string) error {
	l.asked = p.now()
	many := false
	err := p.client.ask(ctx, doing, p.options.ListTimeout, func(ctx context.Context, api *authzed.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the stream where it is not read to its end
		stream, err := api.LookupResources(ctx, req)
		if err != nil {
			return err
		}
		for {
			found, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if p.names.untyped(req.GetResourceObjectType(), err) {
				l.untyped = true
				return nil
			}
			if err != nil {
				return err
			}
			if l.add(found) != nil {
				many = true // which is not the server's fault
				return nil
			}
		}
	})
	if many {
		return errManyIDs
	}
	return err
}

// objects looks up everything that the caller of q may do q's permission on.
// Callers that ask for the same at the same time wait for one lookup.
func (p *Phase) objects(ctx context.Context, g *generation, key string, q question, c caller, full bool) (*lookup, error) {
	req := &v1.LookupResourcesRequest{
		Consistency:        g.consistency(full),
		ResourceObjectType: q.object.kind,
		Permission:         q.permission,
		Subject:            q.subject.subject(),
		Context:            c.context(),
	}
	doing := "look up each " + q.object.kind + " on which " + q.subject.String() + " has " + q.permission
	if full || !g.cacheable() {
		l := &lookup{index: &ids{numbers: map[string]uint32{}}}
		return l, l.run(ctx, p, req, doing)
	}
	l, begin := g.lookups.start(key, p.good)
	if begin {
		func() {
			defer close(l.done)
			l.err = errLeft // whatever happens, it is not an empty lookup that succeeded
			// Others wait for it too: it does not end with this caller, but it ends.
			l.err = l.run(context.WithoutCancel(ctx), p, req, doing)
		}()
	}
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, p.client.judge(doing, errors.Join(errLeft, ctx.Err()))
	}
}

// good tells whether a lookup that ended may be used. One that named too many
// objects would do so again.
func (p *Phase) good(l *lookup) bool {
	return (l.err == nil || errors.Is(l.err, errManyIDs)) && p.fresh(l.asked)
}
