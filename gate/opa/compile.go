package opa

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/internal/mcp"
)

// compiled is a policy without the gateway's data. It is not changed once
// made.
type compiled struct {
	source      *source
	revision    string // of the manifest, or of the contents
	compiler    *ast.Compiler
	data        map[string]any    // of its data files
	origin      map[string]string // key of data to the file that it is from
	lines       map[string][]string
	reads       reads
	independent []ast.Ref // see independentRules
	warnings    []string
}

// compile parses and compiles a policy. The error has all that is wrong with
// it, with files and lines.
func compile(src *source, v RegoVersion, decision ast.Ref) (*compiled, error) {
	c := &compiled{source: src, revision: "sha256:" + src.hash[:16], lines: map[string][]string{}}
	manifest, err := readManifest(src)
	if err != nil {
		return nil, err
	}
	if manifest.Revision != "" {
		c.revision = manifest.Revision
	}
	modules, err := parse(src, v, manifest, false)
	if err != nil {
		return nil, err
	}
	c.data, c.origin, err = readData(src)
	if err != nil {
		return nil, err
	}
	for _, f := range src.files {
		if modules[f.show] != nil {
			c.lines[f.show] = strings.Split(string(f.data), "\n")
		}
	}
	c.compiler = newCompiler(v)
	if c.compiler.Compile(modules); c.compiler.Failed() {
		return nil, fmt.Errorf("compile policy: %w", joinCompile(c.compiler.Errors))
	}
	if err := hasDecision(c.compiler, decision); err != nil {
		return nil, err
	}
	c.reads = readsOf(c.compiler, decision)
	c.independent = independentRules(c.compiler, &c.reads)
	c.warnings = c.warn(decision)
	return c, nil
}

// newCompiler returns a compiler with the rules that every policy of ours is
// held to.
func newCompiler(v RegoVersion) *ast.Compiler {
	return ast.NewCompiler().
		WithCapabilities(capabilities(v)).
		WithDefaultRegoVersion(v.ast()).
		WithStrict(true).
		SetErrorLimit(0)
}

func readManifest(src *source) (bundle.Manifest, error) {
	var m bundle.Manifest
	for _, f := range src.files {
		if f.name != manifestFile {
			continue
		}
		if err := util.UnmarshalJSON(f.data, &m); err != nil {
			return m, fmt.Errorf("%s: not a manifest of a bundle: %w", f.show, err)
		}
	}
	return m, nil
}

// parse parses the policies, or the tests besides them.
func parse(src *source, v RegoVersion, manifest bundle.Manifest, tests bool) (map[string]*ast.Module, error) {
	modules := map[string]*ast.Module{}
	var faults []error
	for _, f := range src.files {
		if path.Ext(f.name) != ".rego" || !tests && strings.HasSuffix(f.name, testSuffix) {
			continue
		}
		m, err := parseModule(f, v, manifest)
		switch {
		case err != nil:
			faults = append(faults, err)
		case m != nil: // a file of nothing but comments is no module
			modules[f.show] = m
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("parse policy: %w", errors.Join(faults...))
	}
	return modules, nil
}

func parseModule(f sourceFile, v RegoVersion, manifest bundle.Manifest) (*ast.Module, error) {
	version := v.ast()
	own, err := manifest.RegoVersionForFile("/" + f.name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if own != ast.RegoUndefined {
		version = own
	}
	m, err := ast.ParseModuleWithOpts(f.show, string(f.data), ast.ParserOptions{
		RegoVersion:  version,
		Capabilities: capabilities(v),
	})
	if list, ok := errors.AsType[ast.Errors](err); ok {
		return nil, joinCompile(list)
	}
	if err != nil {
		return nil, &placed{f.show, 0, err}
	}
	return m, nil
}

// joinCompile returns errors of OPA in the order of their places, one line each.
func joinCompile(list ast.Errors) error {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *ast.Error) int {
		if a.Location == nil || b.Location == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Location.File, b.Location.File), cmp.Compare(a.Location.Row, b.Location.Row))
	})
	faults := make([]error, 0, len(list))
	for _, e := range list {
		line := *e
		line.Details = nil // the excerpt takes more lines
		faults = append(faults, &line)
	}
	return errors.Join(faults...)
}

// readData merges the data files of a policy. Two files that have the same key
// are an error.
func readData(src *source) (data map[string]any, origin map[string]string, err error) {
	data, origin = map[string]any{}, map[string]string{}
	var faults []error
	for _, f := range src.files {
		if base, ext, _ := strings.Cut(path.Base(f.name), "."); base != "data" || ext == "rego" {
			continue
		}
		v, err := decodeData(f)
		if err == nil {
			v, err = nest(v, path.Dir(f.name))
		}
		if err == nil {
			err = merge(data, v.(map[string]any), "")
		}
		if err != nil {
			if _, ok := errors.AsType[*placed](err); !ok {
				err = &placed{f.show, 0, err}
			}
			faults = append(faults, err)
			continue
		}
		for key := range v.(map[string]any) {
			if origin[key] == "" {
				origin[key] = f.show
			}
		}
	}
	if len(faults) == 0 {
		faults = append(faults, checkShapes(data, func(key string) string { return origin[key] }))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, nil, fmt.Errorf("policy data: %w", err)
	}
	return data, origin, nil
}

// decodeData decodes JSON or YAML in which no key is repeated: of two deny
// lists with one name the first would be lost in silence.
func decodeData(f sourceFile) (any, error) {
	if path.Ext(f.name) == ".json" {
		if err := mcp.Validate(f.data, mcp.Limits{}); err != nil {
			return nil, inLine(f, err)
		}
		return decodeJSON(f.data)
	}
	var once any
	if err := yaml.Unmarshal(f.data, &once); err != nil {
		return nil, err
	}
	var v any
	if err := util.Unmarshal(f.data, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// inLine says in which line the fault of a JSON file is.
func inLine(f sourceFile, err error) error {
	e, ok := errors.AsType[*mcp.SyntaxError](err)
	if !ok {
		return err
	}
	before := f.data[:min(e.Offset, len(f.data))]
	return &placed{f.show, 1 + strings.Count(string(before), "\n"), errors.New(e.What)}
}

// nest puts a value below the folders that its file is in.
func nest(v any, dir string) (any, error) {
	if dir != "." {
		parts := strings.Split(dir, "/")
		for _, p := range slices.Backward(parts) {
			v = map[string]any{p: v}
		}
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, fmt.Errorf("is %s and must be an object", kindOf(v))
	}
	return v, nil
}

// merge adds the members of from to those of to.
func merge(to, from map[string]any, at string) error {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		there, ok := to[key]
		if !ok {
			to[key] = from[key]
			continue
		}
		a, both := there.(map[string]any)
		b, ok := from[key].(map[string]any)
		if !ok || !both {
			return fmt.Errorf("data%s.%s is in another file, too", at, key)
		}
		if err := merge(a, b, at+"."+key); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoDecision is that a policy does not have the rule that is to decide, for
// [errors.Is].
var ErrNoDecision = errors.New("the policy lacks the rule that decides")

// absentRule is ErrNoDecision of one rule.
type absentRule struct{ rule string }

func (e *absentRule) Error() string {
	return fmt.Sprintf("the policy has no rule %s; write one, or name another in opa.decision", e.rule)
}

func (e *absentRule) Unwrap() error { return ErrNoDecision }

// hasDecision refuses a policy that does not have the rule that is to decide:
// OPA would load it and deny everything without a word.
func hasDecision(c *ast.Compiler, decision ast.Ref) error {
	rules := c.GetRulesExact(decision)
	if len(rules) == 0 {
		return &absentRule{decision.String()}
	}
	for _, r := range rules {
		if len(r.Head.Args) > 0 {
			return fmt.Errorf("%s: %s is a function and cannot be asked; it must be a rule", r.Location, decision)
		}
	}
	return nil
}

// decisionRef parses the name of the rule to ask.
func decisionRef(name string) (ast.Ref, error) {
	ref, err := ast.ParseRef(name)
	fault := fmt.Errorf("decision %q must be the name of a rule, such as %s", name, DefaultDecision)
	if err != nil || len(ref) < 2 || !ref[0].Equal(ast.DefaultRootDocument) {
		return nil, fault
	}
	for _, t := range ref[1:] {
		if _, ok := t.Value.(ast.String); !ok {
			return nil, fault
		}
	}
	return ref, nil
}
