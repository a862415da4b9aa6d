package registry

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// view is everything that decisions are based on. It is immutable.
type view struct {
	rows     map[string]*row // by capability id
	byKey    map[key]*row
	blocked  map[string][]blockedTemplate // by server
	spelled  map[key][]*row               // resources, by their spelling
	fallback bool                         // names in no catalog are allowed
	flagged  map[string]bool              // tenants with a flag
	limited  map[string]bool              // personas with a restriction
	lists    map[string]kinds             // personas that have only what is allowed to them, and of which kinds
	class    string                       // begins the class of every caller
	revision string
	phase    *Phase // always decides by this view
}

// row is one capability.
type row struct {
	record    *store.RegistryRecord // nil when it is not recorded
	key       key
	hash      string // of the definition offered here
	exposed   string // as clients of this gateway know it; empty when it is not offered here
	standing  standing
	enabled   bool
	flags     map[string]store.FlagRecord        // by tenant
	personas  map[string]store.RestrictionRecord // denied, or allowed
	lists     map[string]kinds                   // of the view
	class     governance.Class
	suspicion []string
	category  string
	standIn   bool // the gateway's own, see [gate.Offered]
}

// standing is the state of a definition.
type standing uint8

const (
	unrecorded standing = iota // the zero row is never served
	served
	held
	orphaned
)

// newView builds the view from the tables and the servers' lists.
func newView(s Rules, t *tables, offers map[string]*offer, seq uint64) *view {
	v := &view{
		rows: make(map[string]*row, len(t.records)), byKey: make(map[key]*row, len(t.records)),
		blocked: map[string][]blockedTemplate{}, spelled: map[key][]*row{}, flagged: map[string]bool{}, limited: map[string]bool{}, lists: map[string]kinds{},
		fallback: s.DefaultEnabled,
		revision: fmt.Sprintf("registry %d/%d/%d", t.generations[0], t.generations[1], t.generations[2]),
		class:    strconv.FormatUint(seq, 10),
	}
	v.phase = &Phase{pinned: v}
	for id, record := range t.records {
		one := &row{record: record, key: recordKey(record), standing: kept(record), enabled: enabled(s, record), category: record.Category}
		one.class = classOf(record, nil)
		v.rows[id], v.byKey[one.key] = one, one
	}
	for _, o := range offers {
		for i := range o.items {
			v.offer(s, &o.items[i])
		}
	}
	for _, f := range t.flags {
		v.flagged[f.Tenant] = true
		if one := v.rows[f.CapabilityID]; one != nil {
			set(&one.flags, f.Tenant, f)
		}
	}
	for _, p := range t.restrictions {
		v.limited[p.Persona] = true
		one := v.rows[p.CapabilityID]
		if one != nil {
			set(&one.personas, p.Persona, p)
		}
		if p.Allowed {
			v.lists[p.Persona] = v.lists[p.Persona].with(one)
		}
	}
	for _, one := range v.byKey {
		one.lists = v.lists
		switch one.key.Kind {
		case mcp.Template.String():
			v.blocked[one.key.Server] = append(v.blocked[one.key.Server], blockedTemplate{one, matcher(spelling(one.key).Original)})
		case mcp.Resource.String():
			at := spelling(one.key)
			v.spelled[at] = append(v.spelled[at], one)
		}
	}
	return v
}

func set[V any](m *map[string]V, k string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[k] = v
}

// kept returns the standing of a record that is not offered here.
func kept(r *store.RegistryRecord) standing {
	switch r.State {
	case store.StateActive:
		return served
	case store.StateHeld:
		return held
	}
	return orphaned
}

// enabled tells whether a record is enabled for everyone. About a record that was only
// discovered, nobody has decided.
func enabled(s Rules, r *store.RegistryRecord) bool {
	if undecided(r) {
		return s.DefaultEnabled
	}
	return r.Enabled
}

// offer adds an item that is offered here. Its own definition decides whether it is
// served, whatever other replicas see.
func (v *view) offer(s Rules, i *item) {
	one := v.byKey[i.key]
	if one == nil {
		one = &row{key: i.key, standing: unrecorded, class: classOf(nil, i.definition)}
		v.byKey[i.key] = one
		if i.id != "" {
			v.rows[i.id] = one
		}
	}
	one.category = cmp.Or(s.describe(i).Category, one.category)
	one.exposed, one.hash, one.suspicion = i.exposed, i.hash, i.suspicion
	if i.standIn {
		one.standIn, one.standing, one.enabled = true, served, true
		return
	}
	if one.record == nil {
		return
	}
	one.class = classOf(one.record, i.definition)
	switch {
	case i.fault != "":
		one.standing = unrecorded
	case i.hash == one.record.AcceptedHash, i.native:
		one.standing = served
	case i.hash == one.record.HeldHash, s.OnChange != Enable, one.record.AcceptedHash == "", len(i.suspicion) > 0:
		one.standing = held
	default: // changed within the policy; it is about to be recorded
		one.standing = served
	}
}

// find returns the row of a request, nil when there is none.
func (v *view) find(r *gate.Request) *row {
	if r.CapabilityID != "" {
		if one := v.rows[r.CapabilityID]; one != nil {
			return one
		}
	}
	return v.byKey[key{Server: r.Server, Kind: r.Kind.String(), Original: r.Original}]
}

// ground is the reason of a deny.
type ground uint8

const (
	pass ground = iota
	isUnrecorded
	isHeld
	isOrphaned
	isDisabled
	isOff        // by a flag of the tenant
	isRestricted // by a restriction of the persona
	isNotAllowed // the persona has a list of what it is allowed
	isUnknown    // in no catalog, and the default is disabled
	isOfTemplate // the URI matches a template that is not served
)

// reasons are what a decision says.
var reasons = map[ground]string{
	isUnrecorded: "its definition is not recorded in the catalog",
	isHeld:       "its definition is new or changed and has not been accepted",
	isOrphaned:   "its server does not offer it any more",
	isDisabled:   "it is disabled in the catalog",
	isOff:        "it is switched off for the tenant",
	isRestricted: "the persona is kept away from it",
	isNotAllowed: "it is none of what is allowed to the persona",
	isUnknown:    "it is not in the catalog, and the default is disabled",
	isOfTemplate: "its URI matches a template that is not served",
}

// judge decides a request, and returns the row that the decision is about.
func (v *view) judge(r *gate.Request) (ground, *row) {
	if r.Action == gate.Enable {
		return pass, nil // not about a capability
	}
	one := v.find(r)
	if one == nil {
		return v.unlisted(r)
	}
	return one.judge(r.Identity), one
}

func (one *row) judge(id *gate.Identity) ground {
	switch one.standing {
	case served:
	case held:
		return isHeld
	case orphaned:
		return isOrphaned
	default:
		return isUnrecorded
	}
	if len(one.personas) > 0 || len(one.lists) > 0 {
		p, said := one.personas[id.Persona]
		switch {
		case id.Persona == "" || one.standIn:
		case said && !p.Allowed:
			return isRestricted
		case !said && one.lists[id.Persona].has(one.key.Kind):
			return isNotAllowed
		}
	}
	if len(one.flags) > 0 {
		if f, ok := one.flags[id.Tenant]; ok {
			if f.Enabled {
				return pass
			}
			return isOff
		}
	}
	if !one.enabled {
		return isDisabled
	}
	return pass
}

// unlisted decides about names in no list. A resource may be a different spelling of a
// listed one, or match a template; it is then treated like that one. A server may also
// answer for resources that it mentions elsewhere.
func (v *view) unlisted(r *gate.Request) (ground, *row) {
	if r.Kind != mcp.Resource {
		return isUnrecorded, nil
	}
	at := spelling(key{Server: r.Server, Kind: r.Kind.String(), Original: r.Original})
	plain := at
	if i := strings.IndexAny(at.Original, "?#"); i >= 0 {
		plain.Original = strings.TrimSuffix(at.Original[:i], "/")
	}
	known := false
	for _, one := range slices.Concat(v.spelled[at], v.spelled[plain]) {
		if why := one.judge(r.Identity); why != pass {
			return why, one
		}
		known = true
	}
	for _, t := range v.blocked[r.Server] {
		if !t.match(at.Original) {
			continue
		}
		if t.row.judge(r.Identity) != pass {
			return isOfTemplate, t.row
		}
		known = true
	}
	if !known && v.lists[r.Identity.Persona].has(r.Kind.String()) {
		return isNotAllowed, nil
	}
	if !v.fallback {
		return isUnknown, nil
	}
	return pass, nil
}

// maxEscapes is how often the escapes of a URI are decoded.
const maxEscapes = 4

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// spelling returns a key that is equal for URIs which a server may confuse: it ignores
// case, escapes, back slashes and dot segments.
func spelling(k key) key {
	uri := strings.TrimSpace(k.Original)
	for range maxEscapes {
		// Invalid escapes stay as they are and do not affect others.
		uri = escape.ReplaceAllStringFunc(uri, func(e string) string {
			plain, _ := url.PathUnescape(e) // the expression matches only valid escapes
			return plain
		})
	}
	uri = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r == 0x7F:
			return -1
		case r == '\\':
			return '/'
		}
		return unicode.ToLower(r)
	}, uri)
	scheme, rest, _ := strings.Cut(uri, ":")
	query := ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 && !strings.Contains(rest[:i], "{") {
		rest, query = rest[:i], rest[i:]
	}
	k.Original = scheme + ":" + path.Clean(rest) + query
	return k
}

// blockedTemplate is a template with a matcher for its URIs. Whether it is served
// depends on the caller.
type blockedTemplate struct {
	row   *row
	match func(uri string) bool
}

// matcher tells which URIs a template (RFC 6570) may produce: those that have its
// literal parts in order. It matches too many rather than too few.
func matcher(template string) func(string) bool {
	var parts []string
	for rest := template; ; {
		before, expression, found := strings.Cut(rest, "{")
		parts = append(parts, before)
		if !found {
			break
		}
		_, rest, _ = strings.Cut(expression, "}")
	}
	return func(uri string) bool {
		if !strings.HasPrefix(uri, parts[0]) {
			return false
		}
		uri = uri[len(parts[0]):]
		if len(parts) == 1 {
			return uri == ""
		}
		for _, part := range parts[1 : len(parts)-1] {
			i := strings.Index(uri, part)
			if i < 0 {
				return false
			}
			uri = uri[i+len(part):]
		}
		return strings.HasSuffix(uri, parts[len(parts)-1])
	}
}

// viewClass names the class of callers that see the same as this one.
func (v *view) viewClass(id *gate.Identity) string {
	class := v.class
	if v.flagged[id.Tenant] {
		class += " tenant " + strconv.Quote(id.Tenant)
	}
	if v.limited[id.Persona] {
		class += " persona " + strconv.Quote(id.Persona)
	}
	return class
}

// sorted returns the rows, sorted by name.
func (v *view) sorted() []*row {
	all := make([]*row, 0, len(v.byKey))
	for _, one := range v.byKey {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *row) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// name returns the exposed name of the row, else its recorded or original name.
func (one *row) name() string {
	switch {
	case one.exposed != "":
		return one.exposed
	case one.record != nil:
		return one.record.Name
	}
	return one.key.Original
}
