package registry

import (
	"cmp"
	"slices"
)

// Unreviewed is what a server lists now and nobody has accepted.
type Unreviewed struct {
	// Held are the names of held definitions, and Suspicious how many of these look like
	// prompt injection.
	Held       []string
	Suspicious int
	// Adopted are the names of definitions that are new or changed since this gateway
	// started, and that are served because the settings say so.
	Adopted []string
}

// Unreviewed returns by server what nobody has accepted; nil while the catalog cannot be
// read. Names are sorted.
func (r *Registry) Unreviewed() map[string]Unreviewed {
	v, err := r.current()
	if err != nil {
		return nil
	}
	r.working.Lock()
	defer r.working.Unlock()
	out := map[string]Unreviewed{}
	for k, one := range v.byKey {
		if one.exposed == "" || one.record == nil || one.standIn || one.empty() {
			continue
		}
		of := out[k.Server]
		switch {
		case one.standing == held:
			of.Held = append(of.Held, one.name())
			if len(one.suspicion) > 0 {
				of.Suspicious++
			}
		case one.standing == served && r.adopted[k]:
			of.Adopted = append(of.Adopted, one.name())
		default:
			continue
		}
		out[k.Server] = of
	}
	for _, of := range out {
		slices.SortFunc(of.Held, cmp.Compare)
		slices.SortFunc(of.Adopted, cmp.Compare)
	}
	return out
}
