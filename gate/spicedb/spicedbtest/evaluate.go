package spicedbtest

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
)

// verdict is an answer of three: no, has, and only under a condition.
type verdict struct {
	has     bool
	missing []string // not empty for a condition
}

func (v verdict) conditional() bool { return !v.has && len(v.missing) > 0 }

func or(all ...verdict) verdict {
	var sum verdict
	for _, v := range all {
		if v.has {
			return v
		}
		sum.missing = append(sum.missing, v.missing...)
	}
	return sum
}

func minus(v, banned verdict) verdict {
	switch {
	case banned.has:
		return verdict{}
	case banned.conditional() && (v.has || v.conditional()):
		return verdict{missing: append(slices.Clone(v.missing), banned.missing...)}
	}
	return v
}

// world is the relationships at one revision.
type world map[string]*v1.Relationship

// evaluation is one question to a world.
type evaluation struct {
	world   world
	subject string
	context map[string]any
	now     time.Time
	depth   int
}

// permission evaluates a permission or relation of [Schema].
func (e *evaluation) permission(kind, id, name string) verdict {
	switch {
	case name == "execute" && kind == "server":
		all := []verdict{e.relation(kind, id, "executor")}
		e.each(kind, id, "tenant", func(r *v1.Relationship) {
			all = append(all, e.relation("tenant", r.GetSubject().GetObject().GetObjectId(), "admin"))
		})
		return or(all...)
	case name == "execute" || name == "view" || name == "read":
		grant := "executor"
		if kind == "resource" {
			grant = "reader"
		}
		all := []verdict{e.relation(kind, id, "owner"), e.relation(kind, id, grant)}
		e.each(kind, id, "server", func(r *v1.Relationship) {
			all = append(all, e.permission("server", r.GetSubject().GetObject().GetObjectId(), "execute"))
		})
		return minus(or(all...), e.relation(kind, id, "banned"))
	}
	return e.relation(kind, id, name)
}

// relation evaluates a relation with all sets that are in it.
func (e *evaluation) relation(kind, id, name string) verdict {
	if e.depth++; e.depth > 50 {
		return verdict{}
	}
	defer func() { e.depth-- }()
	var all []verdict
	e.each(kind, id, name, func(r *v1.Relationship) {
		var v verdict
		switch s := r.GetSubject(); {
		case s.GetOptionalRelation() != "":
			v = e.relation(s.GetObject().GetObjectType(), s.GetObject().GetObjectId(), s.GetOptionalRelation())
		case objectText(s.GetObject()) == e.subject:
			v = verdict{has: true}
		}
		if v.has && r.GetOptionalCaveat() != nil {
			v = e.caveat(r.GetOptionalCaveat())
		}
		all = append(all, v)
	})
	return or(all...)
}

// each calls f for the relationships of one relation that have not expired.
func (e *evaluation) each(kind, id, name string, f func(*v1.Relationship)) {
	prefix := kind + ":" + id + "#" + name + "@"
	for key, r := range e.world {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if end := r.GetOptionalExpiresAt(); end != nil && !e.now.Before(end.AsTime()) {
			continue
		}
		f(r)
	}
}

// caveat evaluates a caveat of [Schema]. What stands on the relationship wins.
func (e *evaluation) caveat(c *v1.ContextualizedCaveat) verdict {
	values := map[string]any{}
	maps.Copy(values, e.context)
	maps.Copy(values, c.GetContext().AsMap())
	var needs []string
	holds := func() bool { return false }
	switch c.GetCaveatName() {
	case "business_hours":
		needs = []string{"hour", "from", "to"}
		holds = func() bool {
			hour, _ := values["hour"].(float64)
			from, _ := values["from"].(float64)
			to, _ := values["to"].(float64)
			return hour >= from && hour < to
		}
	case "at_address":
		needs = []string{"ip", "address"}
		holds = func() bool { return values["ip"] == values["address"] }
	case "sent":
		needs = []string{"now", "hour", "tenant", "persona", "groups", "action", "want_action", "want_group"}
		holds = func() bool {
			stamp, _ := values["now"].(string)
			_, err := time.Parse(time.RFC3339, stamp)
			groups, _ := values["groups"].([]any)
			return err == nil && values["tenant"] == "acme" && values["persona"] == "bot" &&
				values["action"] == values["want_action"] && slices.Contains(groups, values["want_group"])
		}
	}
	var missing []string
	for _, n := range needs {
		if _, ok := values[n]; !ok {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return verdict{missing: missing}
	}
	return verdict{has: holds()}
}
