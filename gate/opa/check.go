package opa

import (
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Problem is one thing that is wrong with a policy.
type Problem struct {
	File string // empty where it is not in a file
	Line int    // counted from 1; 0 where it is not in a line
	Text string // what is wrong, without file and line
	Err  error  // the same with all that is known, for errors.Is and As
}

// Check parses and compiles the policies, tests and data files of directories
// or bundles on disk, each by itself, and returns all that is wrong with them;
// nil means nothing. It asks the policies nothing: what [New] says besides is
// about the rule that decides and the gateway's data.
func Check(v RegoVersion, paths ...string) []Problem {
	var list []Problem
	for _, path := range paths {
		list = append(list, Problems(checkPath(path, v))...)
	}
	return list
}

func checkPath(path string, v RegoVersion) error {
	modules, data, err := readTests(path, v)
	if err != nil {
		return err
	}
	// Of the rules for policies, strictness is not one for tests: what they
	// leave unused does no harm.
	policies, all := newCompiler(v), newCompiler(v).WithStrict(false)
	tested := map[string]*ast.Module{}
	for name, m := range modules {
		if !strings.HasSuffix(name, testSuffix) {
			tested[name] = m.Copy()
		}
	}
	if policies.Compile(tested); policies.Failed() {
		return joinCompile(policies.Errors)
	}
	if all.WithEnablePrintStatements(true).Compile(modules); all.Failed() {
		return joinCompile(all.Errors)
	}
	p := &policy{data: data}
	if conflicts := ast.CheckPathConflicts(policies, p.has); len(conflicts) > 0 {
		return joinCompile(conflicts)
	}
	return nil
}

// placed is an error that stands in a file.
type placed struct {
	file string
	line int // 0 where it is not in a line
	err  error
}

// Error implements error.
func (e *placed) Error() string {
	if e.line == 0 {
		return e.file + ": " + e.err.Error()
	}
	return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err)
}

// Unwrap returns what is wrong there.
func (e *placed) Unwrap() error { return e.err }

// Problems takes an error of [New] or [Phase.SetData] apart.
func Problems(err error) []Problem {
	switch e := err.(type) { //nolint:errorlint // the chain is walked here
	case nil:
		return nil
	case *ast.Error:
		p := Problem{Text: e.Code + ": " + e.Message, Err: e}
		if e.Location != nil {
			p.File, p.Line = e.Location.File, e.Location.Row
		}
		return []Problem{p}
	case *placed:
		return []Problem{{File: e.file, Line: e.line, Text: e.err.Error(), Err: e}}
	case interface{ Unwrap() []error }:
		var list []Problem
		for _, part := range e.Unwrap() {
			list = append(list, Problems(part)...)
		}
		return list
	}
	// What is around a fault with a place, or around several, only says what
	// was being done.
	inner := Problems(errors.Unwrap(err))
	if len(inner) > 1 || len(inner) == 1 && inner[0].File != "" {
		return inner
	}
	return []Problem{{Text: err.Error(), Err: err}}
}
