package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// This file makes gateways that share a store agree on what is held. A definition
// that one of them accepts is accepted for all, so that the strictest settings of
// all are in force on each. Every gateway that holds anything leaves a mark in the
// store, which the others read.

const (
	strictKey = "registry/strictest"
	// strictEach is how often a mark is renewed, and strictFor how long it counts
	// once its gateway is gone: long enough for one that is down for a while.
	strictEach = 10 * time.Minute
	strictFor  = 24 * time.Hour
)

// strictness is what of the settings gateways have to agree on.
type strictness struct {
	OnNew    Policy `json:"on_new"`
	OnChange Policy `json:"on_change"`
}

// loosest is what every setting is at least as strict as.
var loosest = strictness{Enable, Enable}

// mark is what a gateway leaves.
type mark struct {
	strictness

	By string    `json:"by"`
	At time.Time `json:"at"`
}

func (s Rules) strictness() strictness {
	return strictness{s.OnNew, s.OnChange}.with(loosest)
}

// with returns the stricter of each.
func (s strictness) with(other strictness) strictness {
	order := []Policy{Enable, Adopt, Hold}
	stricter := func(a, b Policy) Policy {
		i, j := slices.Index(order, a), slices.Index(order, b)
		if i < 0 || j < 0 { // what is not known holds
			return Hold
		}
		return order[max(i, j)]
	}
	return strictness{stricter(s.OnNew, other.OnNew), stricter(s.OnChange, other.OnChange)}
}

// agree takes over the strictest settings of all gateways and leaves a mark where
// the own ones are among them. changed tells whether others are in force than
// before. working is held.
func (r *Registry) agree(ctx context.Context) (changed bool, err error) {
	if r.o.Gateway == "" {
		return false, nil
	}
	raw, _, err := r.o.Store.Meta().Get(ctx, strictKey)
	if err != nil {
		return false, fmt.Errorf("read what other gateways hold: %w", err)
	}
	there := mark{strictness: loosest}
	if len(raw) > 0 && json.Unmarshal(raw, &there) != nil {
		there = mark{By: "unknown", At: time.Now()} // by a later version: hold
	}
	own, now := r.own.strictness(), time.Now()
	others := loosest
	if there.By != "" && there.By != r.o.Gateway && now.Sub(there.At) < strictFor {
		others = there.strictness
	}
	switch wanted := own.with(others); {
	case own == loosest && there.By == r.o.Gateway:
		err = r.o.Store.Meta().Put(ctx, strictKey, nil)
	case own == loosest:
	case there.strictness.with(own) != there.strictness, there.By == r.o.Gateway && there.strictness != wanted, now.Sub(there.At) > strictEach:
		raw, _ := json.Marshal(mark{wanted, r.o.Gateway, now}) // never fails on texts and times
		err = r.o.Store.Meta().Put(ctx, strictKey, raw)
	}
	if err != nil {
		return false, fmt.Errorf("leave word of what is held: %w", err)
	}
	r.others = others
	return r.settle(), nil
}

// settle puts the settings in force that follow from the own ones and those of
// others, and tells whether they are others than before. working is held.
func (r *Registry) settle() bool {
	next := r.own
	if r.o.Gateway != "" && r.others != (strictness{}) {
		agreed := r.own.strictness().with(r.others)
		next.OnNew, next.OnChange = agreed.OnNew, agreed.OnChange
	}
	if next == r.s {
		return false
	}
	changed := next.strictness() != r.s.strictness()
	r.s = next
	if changed && next.strictness() != r.own.strictness() {
		r.log.Warn("another gateway that shares the store holds more than this one is configured to; its settings are in force here, too",
			"on_new", next.OnNew, "on_change", next.OnChange)
	}
	return changed
}

// Stricter says in a sentence that other settings than the own ones are in force;
// empty when the own ones are.
func (r *Registry) Stricter() string {
	r.working.Lock()
	defer r.working.Unlock()
	if r.s.strictness() == r.own.strictness() {
		return ""
	}
	return fmt.Sprintf("registry: on_new: %s and on_change: %s are in force, which another gateway that shares the store is configured to; "+
		"write the same on all of them", r.s.OnNew, r.s.OnChange)
}
