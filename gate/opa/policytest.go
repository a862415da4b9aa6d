package opa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// ruleTestTimeout bounds one test of a policy.
const ruleTestTimeout = 5 * time.Second

// TestResult is how one test of a policy went.
type TestResult struct {
	Name   string // package and rule, such as data.toolgate_test.test_default
	File   string
	Line   int
	Pass   bool
	Skip   bool   // its name begins with todo_
	Err    error  // why it could not be evaluated to its end
	Output string // what it printed
	Took   time.Duration
}

// RunTests runs the test_ rules in the *_test.rego files of a directory, or of
// a bundle on disk, with what a policy may use in the gateway: a forbidden
// builtin function, or one that fails, fails the test. The results are in the
// order of files and lines. An error means that there is nothing to run: the
// policy or a test does not compile, its data has a wrong shape, or there is
// no test.
func RunTests(ctx context.Context, path string, v RegoVersion) ([]TestResult, error) {
	modules, data, err := readTests(path, v)
	if err != nil {
		return nil, err
	}
	store := inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))
	txn, err := store.NewTransaction(ctx, storage.TransactionParams{})
	if err != nil {
		return nil, fmt.Errorf("policy tests: %w", err)
	}
	defer store.Abort(ctx, txn)
	results, err := tester.NewRunner().
		SetStore(store).
		SetModules(modules).
		SetDefaultRegoVersion(v.ast()).
		SetCompiler(newCompiler(v).WithStrict(false).WithEnablePrintStatements(true)).
		CapturePrintOutput(true).
		RaiseBuiltinErrors(true).
		SetTimeout(ruleTestTimeout).
		RunTests(ctx, txn)
	if list, ok := errors.AsType[ast.Errors](err); ok {
		err = joinCompile(list)
	}
	if err != nil {
		return nil, fmt.Errorf("policy tests: %w", err)
	}
	var list []TestResult
	for r := range results { // until the runner has ended
		list = append(list, resultOf(r))
	}
	slices.SortFunc(list, func(a, b TestResult) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Name, b.Name))
	})
	switch {
	case ctx.Err() != nil:
		return list, fmt.Errorf("policy tests: %w", ctx.Err())
	case len(list) == 0:
		return nil, fmt.Errorf("policy tests: %s has no rule test_... in a file *%s", path, testSuffix)
	}
	return list, nil
}

func resultOf(r *tester.Result) TestResult {
	t := TestResult{
		Name: r.Package + "." + r.Name, Pass: r.Pass() && !r.Skip, Skip: r.Skip,
		Err: r.Error, Output: string(r.Output), Took: r.Duration,
	}
	if r.Location != nil {
		t.File, t.Line = r.Location.File, r.Location.Row
	}
	return t
}

func readTests(path string, v RegoVersion) (map[string]*ast.Module, map[string]any, error) {
	if err := v.check(); err != nil {
		return nil, nil, err
	}
	src, err := readPath(path)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := readManifest(src)
	if err != nil {
		return nil, nil, err
	}
	modules, faults := parse(src, v, manifest, true)
	data, _, err := readData(src)
	if err = errors.Join(faults, err); err != nil {
		return nil, nil, err
	}
	return modules, data, nil
}
