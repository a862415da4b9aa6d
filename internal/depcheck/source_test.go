package depcheck_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fset has the positions of every file that sources has parsed.
var fset = token.NewFileSet()

// parsed has what sources has returned.
var parsed = map[string]map[string]*ast.File{}

// sources parses every Go file of a folder, whatever system it is built for, once.
func sources(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	if files, ok := parsed[dir]; ok {
		return files
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s cannot be parsed: %v", e.Name(), err)
			continue
		}
		files[e.Name()] = f
	}
	parsed[dir] = files
	return files
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for _, p := range all(t) {
		var with []string
		own := 0
		for name, f := range sources(t, p.dir) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			own++
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if own > 0 && len(with) != 1 {
			t.Errorf("%s: %d files have a package comment %q, want exactly one", p.path, len(with), with)
		}
	}
}

func TestTestsDoNotWaitForTime(t *testing.T) {
	for _, p := range all(t) {
		files := sources(t, p.dir)
		bubbles := map[string]bool{}
		for _, f := range files {
			findBubbles(f, bubbles)
		}
		for name, f := range files {
			if !strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, at := range bareSleeps(f, bubbles) {
				t.Errorf("%s: time.Sleep outside a synctest bubble: use testing/synctest, or wait for what is meant", fset.Position(at))
			}
		}
	}
}

// findBubbles adds the functions of f that run their argument inside a synctest bubble:
// those that call synctest.Test and are not tests themselves.
func findBubbles(f *ast.File, into map[string]bool) {
	bubble := importName(f, "testing/synctest")
	if bubble == "" {
		return
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || isTest(fn) {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && isSelector(e, bubble, "Test") {
				into[fn.Name.Name] = true
			}
			return true
		})
	}
}

// bareSleeps returns where f sleeps in real time: calls of time.Sleep that are not inside
// an argument of synctest.Test, or of a function in bubbles. In a file that uses
// synctest, a top-level function that is not a test is assumed to be called from a
// bubble.
func bareSleeps(f *ast.File, bubbles map[string]bool) []token.Pos {
	sleeper, bubble := importName(f, "time"), importName(f, "testing/synctest")
	if sleeper == "" {
		return nil
	}
	var found []token.Pos
	for _, decl := range f.Decls {
		fn, isFunc := decl.(*ast.FuncDecl)
		if isFunc && bubble != "" && !isTest(fn) {
			continue
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				name, plain := call.Fun.(*ast.Ident)
				if plain && bubbles[name.Name] || bubble != "" && isSelector(call.Fun, bubble, "Test") {
					return false // everything in there uses the bubble's clock
				}
			}
			if e, ok := n.(ast.Expr); ok && isSelector(e, sleeper, "Sleep") {
				found = append(found, e.Pos())
			}
			return true
		})
	}
	return found
}

// isTest reports whether the go command runs fn by itself.
func isTest(fn *ast.FuncDecl) bool {
	if fn.Recv != nil {
		return false
	}
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if strings.HasPrefix(fn.Name.Name, prefix) {
			return true
		}
	}
	return false
}

// importName returns the name under which f knows the package at path, or "".
func importName(f *ast.File, path string) string {
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func TestBareSleeps(t *testing.T) {
	for name, tc := range map[string]struct {
		imports, body string
		want          int
	}{
		"in a test":                 {`"time"`, `func TestX(t *T) { time.Sleep(1) }`, 1},
		"in a helper":               {`"time"`, `func wait() { time.Sleep(1) }`, 1},
		"as a value":                {`"time"`, `var pause = time.Sleep`, 1},
		"under another name":        {`clock "time"`, `func TestX(t *T) { clock.Sleep(1) }`, 1},
		"no sleep":                  {`"time"`, `func TestX(t *T) { time.Now() }`, 0},
		"someone else's sleep":      {`"example/time2"`, `func TestX(t *T) { time.Sleep(1) }`, 0},
		"in a bubble":               {`"time"; "testing/synctest"`, `func TestX(t *T) { synctest.Test(t, func(t *T) { time.Sleep(1) }) }`, 0},
		"in a bubble of our own":    {`"time"; "testing/synctest"`, `func in(t *T, f func()) { synctest.Test(t, func(*T) { f() }) }; func TestX(t *T) { in(t, func() { time.Sleep(1) }) }`, 0},
		"beside a bubble":           {`"time"; "testing/synctest"`, `func TestX(t *T) { time.Sleep(1); synctest.Test(t, func(t *T) {}) }`, 1},
		"in a bubble's helper":      {`"time"; "testing/synctest"`, `func slow() { time.Sleep(1) }`, 0},
		"in a bubble's method":      {`"time"; "testing/synctest"`, `func (s *S) TestLike() { time.Sleep(1) }`, 0},
		"in a benchmark, no bubble": {`"time"; "testing/synctest"`, `func BenchmarkX(b *B) { time.Sleep(1) }`, 1},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x\nimport ("+tc.imports+")\n"+tc.body, 0)
		if err != nil {
			t.Fatal(err)
		}
		bubbles := map[string]bool{}
		findBubbles(f, bubbles)
		if got := len(bareSleeps(f, bubbles)); got != tc.want {
			t.Errorf("%s: %d found, want %d", name, got, tc.want)
		}
	}
}
