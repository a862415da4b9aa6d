package governance

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
)

// Rule is what an operator wrote about the calls of some tools, with the tools and the
// place. Several rules may match one tool: all of them have to let a call pass, and the
// highest of their risks is the tool's.
//
// Pointers are JSON Pointers (RFC 6901); a token * stands for any element or member,
// and what is not a string stands for all strings in it, and for the names of members
// that are paths. Without PathsIn, paths are every string whose property name or format
// says that it is one, see [PathName], and every name of a member that can hardly be
// anything else.
type Rule struct {
	// Match is the exposed name of a tool, or a glob in which * is any text
	// and ? any character.
	Match string
	// At is where the rule stands; its Text is not used.
	At gate.Rule
	// ByName finds paths by the names of arguments alone where the schema of a tool
	// cannot be used. Without it such a call is denied.
	ByName bool

	Tool
}

// Case is how upper and lower case of paths are compared.
type Case string

// The ways to compare.
const (
	// CaseSafe forbids in any case and allows in the one that is written.
	CaseSafe Case = ""
	// CaseExact tells upper and lower case apart, as most of Unix does.
	CaseExact Case = "exact"
	// CaseFold does not, as Windows and macOS do.
	CaseFold Case = "fold"
)

// Pattern limits the text of some arguments by regular expressions (RE2). A
// string is matched as it is, a number or boolean as JSON writes it.
type Pattern struct {
	// In are the JSON Pointers of the arguments. Required.
	In []string `config:"in" required:"true"`
	// Match is what each has to match, somewhere. Absent: anything.
	Match string `config:"match"`
	// Deny is what none may match. Absent: nothing.
	Deny string `config:"deny"`
}

// Options of [New].
type Options struct {
	// Home is the home directory that ~ and $HOME mean, an absolute path; empty
	// when there is none, and rules that name it are an error.
	Home string
	// Schemas prepares the tools' schemas; nil means one of its own.
	Schemas *schema.Checker
}

// Rules are rules that were checked. They are not changed once made and safe
// for concurrent use. The zero Rules, and nil ones, deny every call.
type Rules struct {
	made    bool
	rules   []*rule
	home    string
	schemas *schema.Checker
}

// rule is a Rule in the form that judges.
type rule struct {
	Rule
	name gate.Glob

	readOnly, destructive *bool // by the class; nil is nothing said

	paths     []pointer // nil where they are found by their names
	allowed   []*pathGlob
	forbidden []*pathGlob
	commands  []commandRule
	patterns  []patternRule
}

type patternRule struct {
	in          []pointer
	match, deny *regexp.Regexp
}

// New checks rules and returns them ready to judge. The error has all problems
// of all rules, joined; there are no rules then.
func New(rules []Rule, o Options) (*Rules, error) {
	r := &Rules{made: true, home: cleanHome(o.Home), schemas: o.Schemas}
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
	if own.Match == "" {
		add(errors.New("a rule needs the name of a tool, or a glob"))
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
	for _, m := range slices.Concat(own.RequiresApprovalInModes, own.ForbiddenInModes) {
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

// clone keeps the caller's later changes out.
func (r Rule) clone() Rule {
	r.PathsIn = slices.Clone(r.PathsIn)
	r.AllowedPaths, r.ForbiddenPaths = slices.Clone(r.AllowedPaths), slices.Clone(r.ForbiddenPaths)
	r.RequiresApprovalInModes, r.ForbiddenInModes = slices.Clone(r.RequiresApprovalInModes), slices.Clone(r.ForbiddenInModes)
	r.Commands, r.Patterns = slices.Clone(r.Commands), slices.Clone(r.Patterns)
	return r
}

// where names a key of a rule as the file does.
func (r *rule) where(key string) string {
	if key == "" {
		return "governance.tools." + r.Match
	}
	return "governance.tools." + r.Match + "." + key
}

// place is the rule with the part of it that decided.
func (r *rule) place(text string) gate.Rule {
	return gate.Rule{File: r.At.File, Line: r.At.Line, Text: r.Match + ": " + text}
}

// of returns the rules that match an exposed name.
func (r *Rules) of(name string) []*rule {
	var matching []*rule
	for _, own := range r.rules {
		if own.name.Match(name) {
			matching = append(matching, own)
		}
	}
	return matching
}

// Class returns the effective class of a tool by the rules and its hints. said
// is what the operator says of it elsewhere in the configuration; what the
// rules say of the class is in force where said has nothing, and the highest
// risk always is. What makes the class stricter counts for any of the tool's
// names, what makes it milder where [gate.Names.Granted].
func (r *Rules) Class(names gate.Names, said Operator, h Hints) Class {
	if r == nil {
		return Class{}
	}
	for _, own := range r.rules {
		if !names.Restricted(own.name) {
			continue
		}
		said.Risk = said.Risk.atLeast(own.Risk)
		said.HighCost = said.HighCost || own.HighCost
		granted := names.Granted(own.name)
		if own.readOnly != nil && (granted || !*own.readOnly) {
			said.ReadOnly = stricter(said.ReadOnly, own.readOnly, false)
		}
		if own.destructive != nil && (granted || *own.destructive) {
			said.Destructive = stricter(said.Destructive, own.destructive, true)
		}
	}
	return Classify(said, h)
}

// stricter returns what was said, and strict where two contradict each other.
func stricter(a, b *bool, strict bool) *bool {
	switch {
	case a == nil:
		return b
	case b == nil || *a == *b:
		return a
	}
	return &strict
}

// Category returns the category of a tool, of the first rule that has one.
func (r *Rules) Category(name string) string {
	if r == nil {
		return ""
	}
	for _, own := range r.of(name) {
		if own.Category != "" {
			return own.Category
		}
	}
	return ""
}

// ClassWord is what the class of a rule says; nil is nothing said.
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
