package depcheck_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// These are the bounds for the structure of the repository. A wall is a package, or a
// type that owns its state and its lock. The figures keep complexity from growing where
// there is no wall.
const (
	mainLines       = 150 // of package main of the program
	methodsOfType   = 60
	locksOfStruct   = 2
	filesOfFolder   = 45 // non-test files
	linesOfFunction = 94
	linesOfFile     = 600
)

// larger lists what exceeds a figure, with its number. A number here may only become
// smaller.
var larger = map[string]int{}

// figure is one measured thing.
type figure struct {
	n    int
	what string
}

// measured are the figures of the product's own code, without tests and generated files.
type measured struct {
	main                                                int
	methods, locks, folders, functions, files, packages []figure
	lines                                               int
}

// measure parses every package.
func measure(t *testing.T) *measured {
	t.Helper()
	m := &measured{}
	for _, p := range all(t) {
		methods := map[string]int{}
		files, lines := 0, 0
		for name, f := range sources(t, p.dir) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			if ast.IsGenerated(f) {
				continue
			}
			n := fset.File(f.FileStart).LineCount()
			lines += n
			m.files = append(m.files, figure{n, p.path + "/" + name})
			m.declarations(fset, p.path, f, methods)
		}
		if p.path == "cmd/toolgate" {
			m.main = lines
		}
		m.folders = append(m.folders, figure{files, p.path})
		m.packages = append(m.packages, figure{lines, p.path})
		for name, n := range methods {
			m.methods = append(m.methods, figure{n, p.path + "." + name})
		}
		m.lines += lines
	}
	return m
}

// declarations measures the declarations of a file; methods counts methods by type.
func (m *measured) declarations(fset *token.FileSet, path string, f *ast.File, methods map[string]int) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
			name := n.Name.Name
			if n.Recv != nil {
				of := receiver(n.Recv.List[0].Type)
				methods[of]++
				name = of + "." + name
			}
			m.functions = append(m.functions, figure{lines, path + "." + name})
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				if locks := locksIn(s); locks > 0 {
					m.locks = append(m.locks, figure{locks, path + "." + n.Name.Name})
				}
			}
		}
		return true
	})
}

// receiver is the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// locksIn counts the mutexes that a struct itself holds.
func locksIn(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		sel, ok := f.Type.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Mutex" && sel.Sel.Name != "RWMutex" {
			continue
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "sync" {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// Nothing in the house may exceed its figures. With -v, the largest of each are printed.
func TestHouse(t *testing.T) {
	m := measure(t)
	if m.main > mainLines {
		t.Errorf("cmd/toolgate has %d lines, at most %d: what it does belongs into a package", m.main, mainLines)
	}
	t.Logf("package main: %d lines of %d; all packages: %d lines", m.main, mainLines, m.lines)
	for _, c := range []struct {
		name   string
		of     []figure
		most   int
		advice string
	}{
		{"methods of a type", m.methods, methodsOfType, "give a part of its state to a type of its own"},
		{"locks of a struct", m.locks, locksOfStruct, "give what a lock guards to a type of its own"},
		{"files of a folder", m.folders, filesOfFolder, "take out a package"},
		{"lines of a function", m.functions, linesOfFunction, "take out what can be named"},
		{"lines of a file", m.files, linesOfFile, "a file is one idea"},
		{"lines of a package", m.packages, 0, ""},
	} {
		slices.SortFunc(c.of, func(a, b figure) int { return cmp.Or(b.n-a.n, strings.Compare(a.what, b.what)) })
		limit := fmt.Sprintf(", at most %d", c.most)
		if c.most == 0 {
			limit = ""
		}
		t.Logf("%s%s:", c.name, limit)
		for i, f := range c.of {
			if i < 5 {
				t.Logf("\t%5d %s", f.n, f.what)
			}
			most := c.most
			if n, known := larger[f.what]; known && (c.name == "files of a folder" || c.name == "methods of a type") {
				if f.n < n {
					t.Errorf("%s: %d %s: write that number into larger, or leave it out", f.what, f.n, c.name)
				}
				most = max(n, most)
			}
			if c.most > 0 && f.n > most {
				t.Errorf("%s: %d %s, at most %d: %s", f.what, f.n, c.name, most, c.advice)
			}
		}
	}
}
