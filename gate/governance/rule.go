package governance

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Rule is an operator's rule about the calls of some tools, with its place in the
// configuration. Several rules may match one tool: all of them must allow a call, and
// the highest of their risks is the tool's.
//
// Pointers are JSON Pointers (RFC 6901) in which the token * matches any element or
// member. A pointer to an object or array covers all strings in it, and the member
// names that are paths. Without PathsIn, paths are the strings whose property name or
// format indicates a path, see [PathName], and the member names that are clearly
// paths.
type Rule struct {
	// Match is the exposed name of a tool, or a glob: * matches any text and ? any
	// character.
	Match string
	// InCategory is a category of tools. Exactly one of it and Match is set.
	InCategory string
	// At is the place of the rule; its Text is not used.
	At gate.Rule
	// ByName finds paths only by the names of arguments where a tool's schema cannot be
	// used. Without ByName such a call is denied.
	ByName bool

	Tool
}

// Case is how the case of paths is compared.
type Case string

// The ways to compare.
const (
	// CaseSafe forbids in any case, and allows only the case as written.
	CaseSafe Case = ""
	// CaseExact distinguishes upper and lower case, as most Unix systems do.
	CaseExact Case = "exact"
	// CaseFold ignores case, as Windows and macOS do.
	CaseFold Case = "fold"
)

// Pattern limits the text of some arguments by regular expressions (RE2). A
// string is matched as it is, a number or boolean as JSON writes it.
type Pattern struct {
	// JSON Pointers of these arguments. Required.
	In []string `config:"in" required:"true"`
	// Regular expression that each of these arguments must match somewhere. Default: none.
	Match string `config:"match"`
	// Regular expression that none of these arguments may match. Default: none.
	Deny string `config:"deny"`
}

// Options of [New].
type Options struct {
	// Home is the home directory for ~ and $HOME, an absolute path. If it is empty,
	// rules that use it are an error.
	Home string
	// Schemas compiles the tools' schemas; nil creates a new one.
	Schemas *schema.Checker
	// Require says which calls need an approval whatever the rules say.
	Require Require
}

// Require says which calls of tools need an approval in every mode. The zero Require
// demands none.
type Require string

// The values.
const (
	RequireNever  Require = "never"
	RequireUnsafe Require = "unsafe_only" // what is destructive, of high risk, or not classed
	RequireAlways Require = "always"
)

// asks returns the demand on a call, if there is one.
func (q Require) asks(c Class, kind mcp.Kind) (Verdict, bool) {
	c = c.of(kind)
	unsafe := c.Destructive || c.Risk == High
	if kind != mcp.Tool || q == "" || q == RequireNever || q == RequireUnsafe && !unsafe {
		return Verdict{}, false
	}
	reason := "every call of a tool needs an approval"
	if q == RequireUnsafe {
		reason = "what is destructive or of high risk needs an approval"
	}
	return Verdict{Outcome: Ask, Reason: reason, Rule: gate.Rule{Text: "approvals.require: " + string(q)}}, true
}

// Rules are checked rules. They are immutable and safe for concurrent use. The zero
// Rules, and nil ones, deny every call.
type Rules struct {
	made    bool
	rules   []*rule
	home    string
	schemas *schema.Checker
	require Require
}

// NeedClass tells whether the class of a call matters in every mode.
func (r *Rules) NeedClass() bool { return r != nil && r.require == RequireUnsafe }

// rule is a compiled Rule.
type rule struct {
	Rule
	name gate.Glob

	readOnly, destructive *bool // from the class; nil states nothing

	paths     []pointer // nil: paths are found by names
	allowed   []*pathGlob
	forbidden []*pathGlob
	commands  []commandRule
	patterns  []patternRule
}

type patternRule struct {
	in          []pointer
	match, deny *regexp.Regexp
}

// New checks and compiles rules. The error joins all problems of all rules; the rules
// are nil then.
func New(rules []Rule, o Options) (*Rules, error) {
	r := &Rules{made: true, home: cleanHome(o.Home), schemas: o.Schemas, require: o.Require}
	if r.schemas == nil {
		r.schemas = schema.New(schema.Options{Entries: 512})
	}
	var problems []error
	for _, own := range rules {
		made, errs := r.compile(own)
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("%s: %w", made.where(""), err))
		}
		r.rules = append(r.rules, made)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return r, nil
}

func (r *Rules) compile(own Rule) (*rule, []error) {
	own = own.clone()
	made := &rule{Rule: own, name: gate.Glob(own.Match)}
	made.readOnly, made.destructive = ClassWord(own.Class)
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if (own.Match == "") == (own.InCategory == "") {
		add(errors.New("a rule needs the name of a tool, a glob, or a category"))
	}
	if own.Risk != "" && own.Risk.rank() == 0 {
		add(fmt.Errorf("%q is not a risk; it is low, medium or high", own.Risk))
	}
	switch own.Case {
	case CaseSafe, CaseExact, CaseFold:
	default:
		add(fmt.Errorf("%q is not a way to compare; it is exact or fold", own.Case))
	}
	if own.MaxBytes < 0 {
		add(fmt.Errorf("max_bytes is %d and must not be negative", own.MaxBytes))
	}
	for _, m := range slices.Concat(own.RequiresApprovalInModes, own.ForbiddenInModes, own.AllowedInModes) {
		if !m.Known() {
			_, err := ParseMode(string(m))
			add(err)
		}
	}
	if own.PathsIn != nil && len(own.PathsIn) == 0 {
		add(errors.New("paths_in: an empty list would leave all paths unread; leave it out, so that they are found by their names, or take the rules about paths away"))
	}
	var err error
	made.paths, err = parsePointers("paths_in", own.PathsIn)
	add(err)
	made.allowed, err = r.globs("allowed_paths", own.AllowedPaths, own.Case == CaseFold, false)
	add(err)
	made.forbidden, err = r.globs("forbidden_paths", own.ForbiddenPaths, own.Case != CaseExact, true)
	add(err)
	for _, c := range own.Commands {
		compiled, err := c.compile()
		add(err)
		made.commands = append(made.commands, compiled)
	}
	for _, p := range own.Patterns {
		compiled, err := p.compile()
		add(err)
		made.patterns = append(made.patterns, compiled)
	}
	return made, errs
}

func (r *Rules) globs(key string, texts []string, fold, forbid bool) ([]*pathGlob, error) {
	var errs []error
	var globs []*pathGlob
	for _, text := range texts {
		g, err := newPathGlob(text, r.home, fold, forbid)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", key, text, err))
			continue
		}
		globs = append(globs, g)
	}
	return globs, errors.Join(errs...)
}

func (p Pattern) compile() (made patternRule, err error) {
	if made.in, err = parsePointers("patterns", p.In); err != nil {
		return made, err
	}
	if len(p.In) == 0 || p.Match == "" && p.Deny == "" {
		return made, errors.New("patterns: one needs pointers and an expression to match or to deny")
	}
	for _, e := range []struct {
		text string
		into **regexp.Regexp
	}{{p.Match, &made.match}, {p.Deny, &made.deny}} {
		if e.text == "" {
			continue
		}
		if *e.into, err = regexp.Compile(e.text); err != nil {
			return made, fmt.Errorf("patterns: %w", err)
		}
	}
	return made, nil
}

// clone copies the rule, so that later changes by the caller have no effect.
func (r Rule) clone() Rule {
	r.PathsIn = slices.Clone(r.PathsIn)
	r.AllowedPaths, r.ForbiddenPaths = slices.Clone(r.AllowedPaths), slices.Clone(r.ForbiddenPaths)
	r.RequiresApprovalInModes, r.ForbiddenInModes = slices.Clone(r.RequiresApprovalInModes), slices.Clone(r.ForbiddenInModes)
	r.AllowedInModes = slices.Clone(r.AllowedInModes)
	r.Commands, r.Patterns = slices.Clone(r.Commands), slices.Clone(r.Patterns)
	return r
}

// where returns the configuration key of a rule's key.
func (r *rule) where(key string) string {
	at := "governance.tools." + r.Match
	if r.InCategory != "" {
		at = "governance.categories." + r.InCategory
	}
	if key == "" {
		return at
	}
	return at + "." + key
}

// about names what the rule is about.
func (r *rule) about() string {
	if r.InCategory != "" {
		return "category " + r.InCategory
	}
	return r.Match
}

// covers tells whether the rule is about a tool with this exposed name and category.
func (r *rule) covers(name, category string) bool {
	if r.InCategory != "" {
		return r.InCategory == category
	}
	return r.name.Match(name)
}

// place returns the rule's place with the part that decided.
func (r *rule) place(text string) gate.Rule {
	return gate.Rule{File: r.At.File, Line: r.At.Line, Text: r.about() + ": " + text}
}

// of returns the rules that match an exposed name or a category.
func (r *Rules) of(name, category string) []*rule {
	var matching []*rule
	for _, own := range r.rules {
		if own.covers(name, category) {
			matching = append(matching, own)
		}
	}
	return matching
}

// Class returns the effective class of a tool from the rules and its hints. A rule for
// its category only makes the class stricter, because others than the operator may say
// in which category a tool is. said holds
// the operator's statements elsewhere in the configuration. They take precedence over
// the rules' class, but the highest risk always counts. A rule that makes the class
// stricter counts for any of the tool's names; a rule that makes it milder only where
// [gate.Names.Granted].
func (r *Rules) Class(names gate.Names, category string, said Operator, h Hints) Class {
	if r == nil {
		return Class{}
	}
	for _, own := range r.rules {
		restricted, granted := names.Restricted(own.name), names.Granted(own.name)
		if own.InCategory != "" {
			restricted, granted = own.InCategory == category, false
		}
		if !restricted {
			continue
		}
		said.Risk = said.Risk.atLeast(own.Risk)
		said.HighCost = said.HighCost || own.HighCost
		if own.readOnly != nil && (granted || !*own.readOnly) {
			said.ReadOnly = stricter(said.ReadOnly, own.readOnly, false)
		}
		if own.destructive != nil && (granted || *own.destructive) {
			said.Destructive = stricter(said.Destructive, own.destructive, true)
		}
	}
	return Classify(said, h)
}

// stricter combines two statements; where they contradict each other, it returns
// strict.
func stricter(a, b *bool, strict bool) *bool {
	switch {
	case a == nil:
		return b
	case b == nil || *a == *b:
		return a
	}
	return &strict
}

// Category returns the category of a tool, from the first rule with one.
func (r *Rules) Category(name string) string {
	if r == nil {
		return ""
	}
	for _, own := range r.of(name, "") {
		if own.Category != "" {
			return own.Category
		}
	}
	return ""
}

// ClassWord converts a rule's class; nil states nothing.
func ClassWord(word string) (readOnly, destructive *bool) {
	switch word {
	case "read_only":
		return new(true), new(false)
	case "write":
		return new(false), new(false)
	case "destructive":
		return new(false), new(true)
	default:
		return nil, nil
	}
}
