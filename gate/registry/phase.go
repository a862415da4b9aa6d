package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// Phase implements [gate.Phase]. The zero Phase, and a nil one, deny everything. It is safe for
// concurrent use.
type Phase struct {
	registry *Registry
	pinned   *view // decides in place of the registry's; nil: the registry's view decides
}

// reasonDown is the reason of a deny while the catalog cannot be read.
const reasonDown = "registry_unavailable"

// Part implements [gate.Phase].
func (p *Phase) Part() gate.Part {
	return gate.Part{
		Name: Name, Check: p.Check,
		Snapshot: p.Snapshot, Explain: p.Explain, ViewClass: p.ViewClass,
		Pin: func() (gate.Part, any) {
			now := p.Pin()
			return now.Part(), now
		},
	}
}

func (p *Phase) view() (*view, error) {
	switch {
	case p == nil:
		return nil, ErrUnavailable
	case p.pinned != nil:
		return p.pinned, nil
	}
	return p.registry.current()
}

// Check is [gate.Part.Check].
func (p *Phase) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	v, err := p.view()
	if err != nil {
		return gate.Decision{Reason: reasonDown}, err
	}
	d, _, _ := v.decide(r)
	return d, nil
}

// Snapshot is [gate.Part.Snapshot]: the view of the catalog.
func (p *Phase) Snapshot(*gate.Request) any {
	v, err := p.view()
	if err != nil {
		return nil
	}
	return v
}

func (v *view) decide(r *gate.Request) (gate.Decision, ground, *row) {
	if r == nil || r.Identity == nil {
		return gate.Decision{Reason: "nothing was asked"}, isUnrecorded, nil
	}
	why, one := v.judge(r)
	if why == pass {
		return gate.Decision{Effect: gate.Abstain, Revision: v.revision}, why, one
	}
	return gate.Decision{Reason: reasons[why], Revision: v.revision}, why, one
}

// Explain is [gate.Part.Explain]. The rule is a row of the catalog. The change names
// the command that changes that row.
func (p *Phase) Explain(_ context.Context, r *gate.Request) (gate.Explanation, error) {
	v, err := p.view()
	if err != nil {
		return gate.Explanation{Decision: gate.Decision{Reason: reasonDown}}, err
	}
	d, why, one := v.decide(r)
	e := gate.Explanation{Decision: d}
	if r == nil || r.Identity == nil {
		return e, nil
	}
	if one != nil {
		e.Rules = one.rules(why, r.Identity)
	}
	if d.Effect == gate.Deny {
		e.Change = one.change(why, r)
	}
	return e, nil
}

// rules returns the catalog rows behind a decision.
func (one *row) rules(why ground, id *gate.Identity) []gate.Rule {
	if why == isOfTemplate {
		why = one.judge(id)
	}
	if one.record == nil {
		return nil
	}
	by := func(actor, reason string) string {
		if reason == "" {
			return " by " + actor
		}
		return fmt.Sprintf(" by %s (%s)", actor, reason)
	}
	text := ""
	flag, flagged := one.flags[id.Tenant]
	switch {
	case why == isNotAllowed:
		text = "persona_tool_restrictions: what is allowed to persona " + id.Persona
	case why == isRestricted:
		p := one.personas[id.Persona]
		text = fmt.Sprintf("persona_tool_restrictions: %s for persona %s", one.record.ID, p.Persona) + by(p.Actor, p.Reason)
	case why == isOff || why == pass && flagged:
		text = fmt.Sprintf("tenant_tool_flags: %s enabled=%t for tenant %s", one.record.ID, flag.Enabled, flag.Tenant) + by(flag.Actor, flag.Reason)
	case why == isHeld:
		text = fmt.Sprintf("tool_catalog: %s held", one.record.ID)
		if len(one.suspicion) > 0 {
			text += ", flagged: " + strings.Join(one.suspicion, "; ")
		}
	case why == isOrphaned:
		text = fmt.Sprintf("tool_catalog: %s orphaned", one.record.ID)
	case undecided(one.record):
		text = fmt.Sprintf("tool_catalog: %s enabled=%t by registry.default", one.record.ID, one.enabled)
	default:
		text = fmt.Sprintf("tool_catalog: %s enabled=%t", one.record.ID, one.enabled) + by(one.record.Actor, one.record.Reason)
	}
	return []gate.Rule{{Text: text}}
}

// change returns what would lift a deny.
func (one *row) change(why ground, r *gate.Request) *gate.Change {
	if one == nil {
		if why == isUnknown {
			return &gate.Change{Text: "set registry.default to enabled", Where: "registry.default", Value: "enabled"}
		}
		return nil
	}
	name := one.called()
	switch why {
	case isDisabled:
		return &gate.Change{Text: "toolgate catalog enable " + name, Where: "tool_catalog.is_enabled", Value: one.id()}
	case isHeld:
		return &gate.Change{Text: "toolgate catalog accept " + name, Where: "tool_catalog.state", Value: one.id()}
	case isOff:
		return &gate.Change{
			Text:  fmt.Sprintf("toolgate catalog flag %s on --tenant %s", name, word(r.Identity.Tenant)),
			Where: "tenant_tool_flags", Value: one.id(),
		}
	case isNotAllowed:
		return &gate.Change{
			Text:  fmt.Sprintf("toolgate catalog restrict %s --persona %s --allow", name, word(r.Identity.Persona)),
			Where: "persona_tool_restrictions", Value: one.id(),
		}
	case isRestricted:
		return &gate.Change{
			Text:  fmt.Sprintf("toolgate catalog restrict %s --persona %s --lift", name, word(r.Identity.Persona)),
			Where: "persona_tool_restrictions", Value: one.id(),
		}
	case isOfTemplate:
		return one.change(one.judge(r.Identity), r)
	case isOrphaned:
		return &gate.Change{Text: "its server must offer it again, and the configuration must expose it", Where: "server", Value: one.key.Server}
	default:
		return &gate.Change{Text: "see the log for why its definition could not be recorded", Where: "tool_catalog", Value: one.id()}
	}
}

func (one *row) id() string {
	if one.record == nil {
		return ""
	}
	return one.record.ID
}

// called returns the name of the row for a command line.
func (one *row) called() string {
	if name := one.name(); one.record == nil || word(name) == name {
		return name
	}
	return one.record.ID
}

// word quotes text that a shell would not read as one word.
func word(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:/+@", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ViewClass is [gate.Part.ViewClass].
func (p *Phase) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	v, err := p.view()
	if err != nil || id == nil {
		return "", true
	}
	return v.viewClass(id), true
}

// Pin returns a phase that keeps deciding as this one does now. It returns the same
// phase until the catalog changes.
func (p *Phase) Pin() *Phase {
	if p == nil || p.pinned != nil || p.registry == nil {
		return p
	}
	v := p.registry.view.Load()
	if v == nil {
		return p
	}
	return v.phase
}
