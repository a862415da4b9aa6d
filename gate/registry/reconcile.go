package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// This file makes gateways that share a store agree on the policies for definitions. A
// definition that one of them accepts is accepted for all, so the strictest settings
// are in force on each. Every gateway that holds definitions leaves a mark in the
// store for the others.

const (
	strictKey = "registry/strictest"
	// strictEach is how often a mark is renewed. strictFor is how long a mark counts
	// after its gateway stops: long enough for a gateway that is down for a while.
	strictEach = 10 * time.Minute
	strictFor  = 24 * time.Hour
)

// strictness holds the settings on which gateways have to agree.
type strictness struct {
	OnNew    Policy `json:"on_new"`
	OnChange Policy `json:"on_change"`
}

// leastStrict is the least strict setting.
var leastStrict = strictness{Enable, Enable}

// mark is the record of one gateway's settings in the store.
type mark struct {
	strictness

	By string    `json:"by"`
	At time.Time `json:"at"`
}

func (s Rules) strictness() strictness {
	return strictness{s.OnNew, s.OnChange}.with(leastStrict)
}

// with returns the stricter of both, for each setting.
func (s strictness) with(other strictness) strictness {
	order := []Policy{Enable, Adopt, Hold}
	stricter := func(a, b Policy) Policy {
		i, j := slices.Index(order, a), slices.Index(order, b)
		if i < 0 || j < 0 { // an unknown policy counts as hold
			return Hold
		}
		return order[max(i, j)]
	}
	return strictness{stricter(s.OnNew, other.OnNew), stricter(s.OnChange, other.OnChange)}
}

// agree adopts the strictest settings of all gateways, and leaves a mark if this
// gateway's own are among them. changed tells whether the settings in force have
// changed. The caller holds working.
func (r *Registry) agree(ctx context.Context) (changed bool, err error) {
	if r.o.Gateway == "" {
		return false, nil
	}
	raw, _, err := r.o.Store.Meta().Get(ctx, strictKey)
	if err != nil {
		return false, fmt.Errorf("read the settings of other gateways: %w", err)
	}
	there := mark{strictness: leastStrict}
	if len(raw) > 0 && json.Unmarshal(raw, &there) != nil {
		there = mark{By: "unknown", At: time.Now()} // by a later version: hold
	}
	own, now := r.own.strictness(), time.Now()
	others := leastStrict
	if there.By != "" && there.By != r.o.Gateway && now.Sub(there.At) < strictFor {
		others = there.strictness
	}
	switch wanted := own.with(others); {
	case own == leastStrict && there.By == r.o.Gateway:
		err = r.o.Store.Meta().Put(ctx, strictKey, nil)
	case own == leastStrict:
	case there.strictness.with(own) != there.strictness, there.By == r.o.Gateway && there.strictness != wanted, now.Sub(there.At) > strictEach:
		raw, _ := json.Marshal(mark{wanted, r.o.Gateway, now}) // never fails on texts and times
		err = r.o.Store.Meta().Put(ctx, strictKey, raw)
	}
	if err != nil {
		return false, fmt.Errorf("write this gateway's settings into the store: %w", err)
	}
	r.others = others
	return r.settle(), nil
}

// settle combines the own settings with those of the other gateways and puts them in
// force. It tells whether they have changed. The caller holds working.
func (r *Registry) settle() bool {
	next := r.own
	if r.o.Gateway != "" && r.others != (strictness{}) {
		agreed := r.own.strictness().with(r.others)
		next.OnNew, next.OnChange = agreed.OnNew, agreed.OnChange
	}
	changed := next.strictness() != r.s.strictness()
	r.s = next
	if changed && next.strictness() != r.own.strictness() {
		r.log.Warn("another gateway that shares the store has stricter settings; they are in force here, too",
			"on_new", next.OnNew, "on_change", next.OnChange)
	}
	return changed
}

// Stricter says in a sentence that stricter settings than the own ones are in force;
// empty when there are none.
func (r *Registry) Stricter() string {
	r.working.Lock()
	defer r.working.Unlock()
	if r.s.strictness() == r.own.strictness() {
		return ""
	}
	return fmt.Sprintf("registry: on_new: %s and on_change: %s are in force, because another gateway that shares the store has these settings; "+
		"write the same on all of them", r.s.OnNew, r.s.OnChange)
}
