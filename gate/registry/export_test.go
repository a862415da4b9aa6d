package registry

import (
	"context"
	"reflect"

	"github.com/toolgate/toolgate/gate"
)

// AsStored reports whether what the registry holds of the catalog is what it would read.
func (r *Registry) AsStored(ctx context.Context) (bool, error) {
	r.working.Lock()
	defer r.working.Unlock()
	before := r.tables
	err := r.load(ctx)
	return reflect.DeepEqual(before, r.tables), err
}

// Suspicious says why the first item of an offer is flagged beside others.
func Suspicious(of *gate.Offer, all []*gate.Offer) []string {
	return suspicious(of, &of.Items[0], newNames(all))
}

// Edits compares two texts: the former from what is not new, the latter from
// what is not gone.
func Edits(a, b []string) (before, after []string, changed int) {
	for _, e := range edits(a, b) {
		if e.op != '+' {
			before = append(before, e.text)
		}
		if e.op != '-' {
			after = append(after, e.text)
		}
		if e.op != ' ' {
			changed++
		}
	}
	return before, after, changed
}
