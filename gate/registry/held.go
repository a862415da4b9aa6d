package registry

import "github.com/toolgate/toolgate/gate"

// Held reports whether the catalog keeps a capability from a caller for one reason alone:
// its definition is new or changed, and nobody has accepted it.
func (r *Registry) Held(q *gate.Request) bool {
	v, err := r.current()
	if err != nil || q == nil || q.Identity == nil {
		return false
	}
	one := v.find(q)
	if one == nil || one.standing != held {
		return false
	}
	accepted := *one
	accepted.standing = served
	return accepted.judge(q.Identity) == pass
}
