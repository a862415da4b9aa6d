package schemas

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// more stands where a signature leaves something out.
const more = "..."

const (
	// mostRequired bounds a signature, in bytes, whatever its limit. Only a schema with
	// hundreds of required arguments reaches it.
	mostRequired = 16 << 10
	// mostTypes is how many types one signature may hold.
	mostTypes = 400
	// mostLiteral is the longest text of an enum in a signature, in bytes.
	mostLiteral = 60
)

// detail is how much a signature says.
type detail struct {
	depth int  // levels of nested objects
	words int  // values of one enum, and alternatives of one union
	types bool // types of optional arguments
	drop  bool // optional arguments that do not fit are left out
	bare  bool // no types, and no optional arguments
}

// details are tried in this order until the text fits.
var details = []detail{
	{depth: 4, words: 40, types: true},
	{depth: 2, words: 12, types: true},
	{depth: 1, words: 6, types: true},
	{depth: 0, words: 3, types: true},
	{depth: 0, words: 2},
	{depth: 0, words: 2, drop: true},
	{bare: true},
}

// Signature returns a tool's name and arguments as one line, which reads like
// create_issue(title: string, labels?: string[], state?: "open"|"closed"). A question mark
// is behind what may be left out. Required arguments come first.
//
// The text has at most limit bytes. Where it would have more, nested objects, enums, types
// and then optional arguments give way, and "..." stands for them; shortened tells so. The
// names of required arguments always stay, even over the limit, up to 16 KiB in all. A
// schema that cannot be read, or that refuses every object, gives name(...). One that
// accepts any object gives name([key: string]: any).
func Signature(name string, schema []byte, limit int) (text string, shortened bool) {
	root := &value{kind: 't'}
	if len(schema) > 0 && string(schema) != "null" {
		if len(schema) > maxBytes {
			return name + "(" + more + ")", true
		}
		if root = parse(schema, maxDepth); root == nil {
			return name + "(" + more + ")", true
		}
	}
	a := argumentsOf(root)
	if a == nil {
		return name + "(" + more + ")", true
	}
	parts := newParts(root)
	for _, d := range details {
		w := signer{detail: d, parts: parts, limit: limit, left: mostTypes}
		if w.signature(name, a); len(w.text) <= limit || d.bare {
			return string(w.text), w.cut
		}
	}
	return "", false // not reached: the last one is bare
}

// arguments are what a call needs, as the root of a schema says it.
type arguments struct {
	required, optional []argument
	alternatives       [][]string // sets of names of which one is required
	open               *value     // the schema of arguments with other names; nil for none worth a word
	hidden             bool       // conditions that a signature does not show
}

type argument struct {
	name   string
	schema *value // nil when nothing is known of it
}

// argumentsOf reads the arguments off a root schema; nil when it accepts no object.
func argumentsOf(root *value) *arguments {
	g := newGatherer(root)
	if !g.gather(root, 0, true) {
		return nil
	}
	a := &g.arguments
	for _, name := range g.names {
		if _, ok := g.index[name]; !ok {
			g.index[name] = len(g.all)
			g.all = append(g.all, argument{name: name})
		}
	}
	for _, one := range g.all {
		if g.required[one.name] {
			a.required = append(a.required, one)
		} else {
			a.optional = append(a.optional, one)
		}
	}
	if root.kind == 't' || len(root.keys) == 0 || len(g.all) == 0 && a.open == nil && root.get("type") == nil && !a.hidden {
		a.open = &value{kind: 't'}
	}
	return a
}

// gatherer collects the arguments from a root schema and the schemas that apply in place.
type gatherer struct {
	arguments
	targets  targets
	all      []argument
	index    map[string]int  // of all, by name
	required map[string]bool // what every call needs
	names    []string        // the same, in order
	schemas  int
	steps    int // names, values and alternatives still allowed; enough for a root of any size
}

func newGatherer(root *value) *gatherer {
	return &gatherer{targets: targets{root: root}, steps: mostSteps, index: map[string]int{}, required: map[string]bool{}}
}

// spend takes steps off those that are left, and tells whether there were enough.
func (g *gatherer) spend(steps int) bool {
	if g.steps -= steps; g.steps < 0 {
		g.hidden = true
	}
	return g.steps >= 0
}

// gather reads one schema. Outside of alternatives, what it requires is required.
func (g *gatherer) gather(s *value, depth int, needed bool) (ok bool) {
	if g.schemas++; g.schemas > mostTypes || depth > 16 || !g.spend(s.weight()) {
		g.hidden = true
		return true
	}
	if s.kind != '{' {
		return s.kind == 't'
	}
	names, schemas := s.get("properties").members()
	for i, name := range names {
		if schemas[i].kind == 'f' {
			continue
		}
		if at, ok := g.index[name]; ok {
			if g.all[at].schema == nil {
				g.all[at].schema = schemas[i]
			}
			continue
		}
		g.index[name] = len(g.all)
		g.all = append(g.all, argument{name, schemas[i]})
	}
	if needed {
		for _, name := range namesIn(s.get("required")) {
			if !g.required[name] {
				g.required[name] = true
				g.names = append(g.names, name)
			}
		}
	}
	if rest := s.get("additionalProperties"); rest != nil && rest.kind != 'f' && g.open == nil {
		g.open = rest
	}
	if ref, ok := s.get("$ref").string(); ok {
		if to := g.targets.follow(ref); to != nil && !g.gather(to, depth+1, needed) {
			return false
		}
	}
	for _, part := range s.get("allOf").elements() {
		if !g.gather(part, depth+1, needed) {
			return false
		}
	}
	g.alternate(s, depth, needed)
	for _, keyword := range []string{"not", "if", "dependentRequired", "dependentSchemas", "dependencies", "patternProperties", "minProperties"} {
		g.hidden = g.hidden || s.get(keyword) != nil
	}
	return true
}

// alternate reads the alternatives of a schema.
func (g *gatherer) alternate(s *value, depth int, needed bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var sets [][]string
		had := map[string]bool{}
		always := true
		for _, branch := range s.get(keyword).elements() {
			if !g.spend(1) {
				return
			}
			g.gather(branch, depth+1, false)
			for range 8 {
				ref, ok := branch.get("$ref").string()
				if !ok || !g.spend(1+len(ref)/bytesOfStep) {
					break
				}
				to := g.targets.follow(ref)
				if to == nil {
					break
				}
				branch = to
			}
			if !g.spend(len(branch.get("required").elements())) {
				return
			}
			names := namesIn(branch.get("required"))
			always = always && len(names) > 0
			var all []byte
			for _, name := range names {
				all = mcp.AppendQuote(all, name)
			}
			if !had[string(all)] {
				had[string(all)] = true
				sets = append(sets, names)
			}
		}
		switch {
		case len(sets) == 0:
		case !needed || !always || len(g.alternatives) > 0:
			g.hidden = true
		case len(sets) == 1:
			for _, name := range sets[0] {
				if !g.required[name] {
					g.required[name] = true
					g.names = append(g.names, name)
				}
			}
		default:
			g.alternatives = sets
		}
	}
}

func textIn(v *value) string { s, _ := v.string(); return s }

func namesIn(v *value) (names []string) {
	for _, e := range v.elements() {
		if name, ok := e.string(); ok {
			names = append(names, name)
		}
	}
	return names
}

// signer writes one signature with one detail.
type signer struct {
	detail
	parts *parts
	limit int
	left  int      // types still allowed
	open  []*value // targets of references that are being written
	text  []byte
	cut   bool
}

func (w *signer) add(s string) { w.text = append(w.text, s...) }

func (w *signer) more() { w.add(more); w.cut = true }

func (w *signer) signature(name string, a *arguments) {
	w.add(name)
	w.add("(")
	first := true
	separate := func() {
		if !first {
			w.add(", ")
		}
		first = false
	}
	for i := range a.required {
		if len(w.text) > max(w.limit, mostRequired) {
			break
		}
		separate()
		w.name(a.required[i].name)
		if !w.bare {
			w.add(": ")
			w.typeOf(a.required[i].schema, w.depth, false)
		}
	}
	tail := a.tail()
	left := false
	for i := range a.optional {
		before, cut := len(w.text), w.cut
		if !w.bare {
			separate()
			w.name(a.optional[i].name)
			w.add("?")
			if w.types {
				w.add(": ")
				w.typeOf(withoutNull(a.optional[i].schema), w.depth, false)
			} else {
				w.more()
			}
		}
		if w.bare || w.drop && len(w.text)+len(", "+more+")")+len(tail) > w.limit {
			w.text, w.cut, left = w.text[:before], cut, true
			first = len(w.text) == len(name)+1
			break
		}
		if len(w.text) > w.limit && !w.drop {
			return // it does not fit
		}
	}
	if a.open != nil && !w.bare && !w.drop {
		separate()
		w.add("[key: string]: ")
		w.typeOf(a.open, w.depth, false)
	} else {
		left = left || a.open != nil
	}
	if left || a.hidden || w.bare && (len(a.required) > 0 || len(a.optional) > 0) {
		separate()
		w.more()
	}
	w.add(")")
	w.add(tail)
	if len(w.text) > max(w.limit, mostRequired) {
		w.text = append(cleanCut(w.text, mostRequired-len(more)-1), more+")"...)
		w.cut = true
	}
}

// tail names the alternatives, as in: with id | owner, repo.
func (a *arguments) tail() string {
	if len(a.alternatives) == 0 {
		return ""
	}
	w := signer{}
	for i, names := range a.alternatives {
		if w.add(" | "); i == 0 {
			w.text = append(w.text[:0], " with "...)
		}
		for j, name := range names {
			if j > 0 {
				w.add(", ")
			}
			w.name(name)
		}
	}
	return string(w.text)
}

// cleanCut cuts a text before a character.
func cleanCut(text []byte, at int) []byte {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:min(at, len(text))]
}

// name writes the name of an argument, quoted if it is more than a word.
func (w *signer) name(name string) {
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '$' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		w.add(name)
		return
	}
	w.text = mcp.AppendQuote(w.text, name)
}

// literal writes a value of an enum.
func (w *signer) literal(v *value) {
	switch {
	case v.kind == '{' || v.kind == '[':
		w.more()
	case len(v.raw) > mostLiteral && v.kind == '"':
		w.text = mcp.AppendQuote(w.text, string(cleanCut([]byte(v.text[:min(len(v.text), mostLiteral)]), mostLiteral-len(more)))+more)
		w.cut = true
	case len(v.raw) > mostLiteral:
		w.more()
	default:
		w.text = append(w.text, v.raw...)
	}
}
