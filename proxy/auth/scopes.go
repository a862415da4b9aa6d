package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// offlineAccess requests refresh tokens, which no resource needs (MCP 2026-07-28
// authorization, Refresh Tokens).
const offlineAccess = "offline_access"

// Scopes knows which scopes a capability requires. They only narrow what the gate
// allows. It is safe for concurrent use. The zero Scopes, and nil, refuse everyone; use
// one without rules where no scopes are required.
type Scopes struct {
	made    bool
	rules   []ScopeRule
	implied map[string][]string // by a scope, directly or transitively
}

// NewScopes returns the rules.
func NewScopes(o ScopeSettings) (*Scopes, error) {
	s := &Scopes{made: true, implied: make(map[string][]string, len(o.Hierarchy))}
	for _, rule := range o.Required {
		if rule.Match == "" || len(rule.Scopes) == 0 {
			return nil, errors.New("a rule for scopes needs a name to match and at least one scope")
		}
		if err := checkScopes(rule.Scopes...); err != nil {
			return nil, fmt.Errorf("scopes of %q: %w", rule.Match, err)
		}
		s.rules = append(s.rules, ScopeRule{Match: rule.Match, Scopes: slices.Clone(rule.Scopes)})
	}
	for broad, narrow := range o.Hierarchy {
		if err := checkScopes(append([]string{broad}, narrow...)...); err != nil {
			return nil, fmt.Errorf("hierarchy of %q: %w", broad, err)
		}
		all := implied(o.Hierarchy, broad, nil)
		if slices.Contains(all, broad) {
			return nil, fmt.Errorf("the scope %q implies itself", broad)
		}
		s.implied[broad] = all
	}
	return s, nil
}

func checkScopes(scopes ...string) error {
	for _, scope := range scopes {
		if !scopeToken(scope) {
			return fmt.Errorf("%q is not a scope", scope)
		}
		if scope == offlineAccess {
			return fmt.Errorf("%q is for refresh tokens and protects nothing", scope)
		}
	}
	return nil
}

// implied adds what a scope implies. Scopes in into are not followed again, so that a
// cycle ends.
func implied(hierarchy map[string][]string, scope string, into []string) []string {
	for _, narrow := range hierarchy[scope] {
		if !slices.Contains(into, narrow) {
			into = implied(hierarchy, narrow, append(into, narrow))
		}
	}
	return into
}

// Needed returns the scopes that a capability requires under any of its names, sorted;
// nil for none.
func (s *Scopes) Needed(names gate.Names) []string {
	if s == nil {
		return nil
	}
	var needed []string
	for _, rule := range s.rules {
		if names.Restricted(gate.Glob(rule.Match)) {
			needed = append(needed, rule.Scopes...)
		}
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

// Lacks returns the required scopes that an identity has neither directly nor through a
// broader scope, sorted; nil for none.
func (s *Scopes) Lacks(id *gate.Identity, names gate.Names) []string {
	var lacks []string
	for _, needed := range s.Needed(names) {
		if !s.has(id, needed) {
			lacks = append(lacks, needed)
		}
	}
	return lacks
}

func (s *Scopes) has(id *gate.Identity, needed string) bool {
	if id == nil {
		return false
	}
	return slices.ContainsFunc(id.Scopes, func(own string) bool {
		return own == needed || slices.Contains(s.implied[own], needed)
	})
}

// Check returns nil when an identity has the scopes that a capability requires, else a
// [*ScopeError]. Only call it for something that the caller may view: the error names
// the scopes and so reveals the capability.
func (s *Scopes) Check(id *gate.Identity, names gate.Names) error {
	if s == nil || !s.made || id == nil {
		return unavailable(errors.New("no rules for scopes are loaded"))
	}
	lacks := s.Lacks(id, names)
	if len(lacks) == 0 {
		return nil
	}
	return &ScopeError{Lacks: lacks, Needed: s.Needed(names), Granted: slices.Clone(id.Scopes)}
}

// Unmatched returns the patterns of rules that match none of these names. They protect
// nothing and are probably misspelled.
func (s *Scopes) Unmatched(names []gate.Names) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, rule := range s.rules {
		if !slices.ContainsFunc(names, func(n gate.Names) bool { return n.Restricted(gate.Glob(rule.Match)) }) {
			out = append(out, rule.Match)
		}
	}
	return out
}

// ScopeError means that a valid token lacks scopes that a capability requires. The
// response is HTTP 403 with a challenge (RFC 6750 section 3.1).
type ScopeError struct {
	Lacks   []string // missing scopes
	Needed  []string // all required scopes
	Granted []string // scopes of the token
}

func (e *ScopeError) Error() string {
	return "the token lacks the scope " + strings.Join(e.Lacks, " ")
}

// requested returns the scopes that a client should request: all required ones, and
// those of the token, so that it loses nothing. If they do not fit a header, it returns
// only the required ones.
func (e *ScopeError) requested() []string {
	all := slices.Clone(e.Needed)
	for _, scope := range e.Granted {
		if scope != offlineAccess && scopeToken(scope) && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	if len(strings.Join(all, " ")) > challengeBytes {
		return e.Needed
	}
	return all
}
