package opa

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// CacheKey returns the key of the cache, in a form to compare.
func CacheKey(generation uint64, r *gate.Request) any {
	return keyOf(generation, r)
}

// Document returns the input of a policy.
func Document(o Options, r *gate.Request) (map[string]any, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	return o.document(r, false)
}

// Values returns the input of a policy that may read all of it: as the engine is
// given it, and what [Document] returns as the engine would take that. It has none
// for numbers that a person can be shown and the engine cannot.
func Values(o Options, r *gate.Request) (given, plain ast.Value, err error) {
	if o, err = o.complete(); err != nil {
		return nil, nil, err
	}
	in, hidden := o.document(r, false)
	given, refused := o.value(context.Background(), r, &reads{all: true, replaced: true})
	switch {
	case refused != nil:
		given = nil
	case hidden != nil:
		err = fmt.Errorf("the engine is given what nobody is shown: %w", hidden)
	default:
		plain, err = ast.InterfaceToValue(in)
	}
	return given, plain, err
}

// Cacheable tells whether decisions of the policy in force are cacheable.
func (p *Phase) Cacheable(a gate.Action) bool { return p.current.Load().cacheable(a) }

// Cached returns for how many calls values of rules are cached.
func (p *Phase) Cached() int {
	p.values.mu.Lock()
	defer p.values.mu.Unlock()
	if len(p.values.entries) != p.values.order.Len() {
		panic("the cache disagrees with itself")
	}
	return len(p.values.entries)
}

// Generation returns what keys of the cache have for the policy in force.
func (p *Phase) Generation() uint64 { return p.current.Load().generation }

// TestCache is a cache of texts under the names of tools.
type TestCache struct{ c *valueCache }

// NewTestCache returns a cache.
func NewTestCache(size int, ttl time.Duration) TestCache {
	return TestCache{newValueCache(size, ttl)}
}

// Put caches a text.
func (t TestCache) Put(name, text string) {
	t.c.put(keyOf(1, &gate.Request{Exposed: name, Identity: gate.NewIdentity(gate.Identity{})}), ruleValues{{known: true, term: ast.StringTerm(text)}})
}

// Get returns the text that is cached.
func (t TestCache) Get(name string) (string, bool) {
	values := t.c.get(keyOf(1, &gate.Request{Exposed: name, Identity: gate.NewIdentity(gate.Identity{})}))
	if values == nil {
		return "", false
	}
	return string(values[0].term.Value.(ast.String)), true
}

// CallerMembers are the members of input that are of the caller.
func CallerMembers() []string { return fromCaller }

// Replace loads a directory in place of the policy in force, as Run does when
// the directory has changed.
func Replace(p *Phase, dir string) (changed bool, err error) {
	src, err := readPath(dir)
	if err != nil {
		return false, err
	}
	return p.replace(context.Background(), src, false)
}

// Circuit is what leaves a failing server alone.
type Circuit struct{ c circuit }

// Enter asks whether the server may be asked.
func (c *Circuit) Enter() (ok, probe bool) { return c.c.enter() }

// Leave reports how it went.
func (c *Circuit) Leave(probe, ok, gaveUp bool) { c.c.leave(probe, ok, gaveUp) }

// Independent returns the rules of the policy in force whose values are cached.
func (p *Phase) Independent() []string {
	var names []string
	for _, ref := range p.current.Load().independent {
		names = append(names, ref.String())
	}
	slices.Sort(names)
	return names
}

// ParseData reads a JSON object with any of the members of [Data]. An unknown
// member, a repeated one and a value in another shape are errors.
func ParseData(raw []byte) (Data, error) {
	if err := mcp.Validate(raw, mcp.Limits{}); err != nil {
		return Data{}, fmt.Errorf("data: %w", err)
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return Data{}, fmt.Errorf("data: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return Data{}, fmt.Errorf("data is %s and must be an object", kindOf(v))
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if shapes[key] == nil {
			return Data{}, fmt.Errorf("data: %q is none of %v", key, slices.Sorted(maps.Keys(shapes)))
		}
	}
	if err := checkShapes(m, func(string) string { return "" }); err != nil {
		return Data{}, fmt.Errorf("data: %w", err)
	}
	return dataOf(m), nil
}
