package depcheck_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// systems are the ones we build for: an import may exist on one system only.
var systems = []string{"linux", "darwin", "windows"}

// pkg is a package of this module, on all systems together.
type pkg struct {
	path    string // below the module; "" for the root
	name    string
	dir     string
	imports []string // of its own files
	tests   []string // of its test files
}

// packages asks the go command for every package of this module, once.
var packages = sync.OnceValues(func() ([]*pkg, error) {
	byPath := map[string]*pkg{}
	for _, system := range systems {
		if err := list(system, byPath); err != nil {
			return nil, err
		}
	}
	all := make([]*pkg, 0, len(byPath))
	for _, p := range byPath {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
	return all, nil
})

// list adds the packages as they are on one system.
func list(system string, into map[string]*pkg) error {
	cmd := exec.Command("go", "list", "-e", "-tags", "e2e", "-json=ImportPath,Name,Dir,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list on %s: %w\n%s", system, err, &problems)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var raw struct {
			ImportPath, Name, Dir              string
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list on %s: %w", system, err)
		}
		path := strings.TrimPrefix(strings.TrimPrefix(raw.ImportPath, module), "/")
		p := into[path]
		if p == nil {
			p = &pkg{path: path, dir: raw.Dir}
			into[path] = p
		}
		p.name = max(p.name, raw.Name)
		p.imports = append(p.imports, raw.Imports...)
		p.tests = append(append(p.tests, raw.TestImports...), raw.XTestImports...)
	}
}

// all returns every package of this module.
func all(t *testing.T) []*pkg {
	t.Helper()
	list, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("go list found no package")
	}
	return list
}

func TestImports(t *testing.T) {
	for _, p := range all(t) {
		key, r, ok := ruleOf(p.path)
		if !ok {
			t.Errorf("%s has no rule: add it to rules in rules_test.go and say why it may import what it does", p.path)
			continue
		}
		for _, imported := range unique(p.imports) {
			if complaint := r.judge(p.path, imported, nil); complaint != "" {
				t.Errorf("%s %s\n\trule %q: %s", p.path, complaint, key, r.why)
			}
		}
		// Test files may use any package of ours, except closed ones.
		tests := rule{ours: []string{anything}, others: r.others}
		for _, imported := range unique(p.tests) {
			if complaint := tests.judge(p.path, imported, testOthers); complaint != "" {
				t.Errorf("a test of %s %s", p.path, complaint)
			}
		}
	}
}

func TestRulesHaveReasons(t *testing.T) {
	for key, r := range rules {
		if r.why == "" {
			t.Errorf("the rule of %s has no reason", key)
		}
	}
}

func TestPackageNamesSaySomething(t *testing.T) {
	for _, p := range all(t) {
		for _, name := range []string{p.name, filepath.Base(p.path)} {
			if slices.Contains(emptyNames, strings.TrimSuffix(name, "_test")) {
				t.Errorf("package %s at %s: name it after what it is for", p.name, p.path)
				break
			}
		}
	}
}

// judge returns what is wrong with one import, or nothing.
func (r rule) judge(importer, imported string, more []string) string {
	if ours, ok := below(imported, module); ok {
		for _, folder := range closed {
			if covers(folder, ours) && !covers(folder, importer) {
				return fmt.Sprintf("imports %s, which nobody imports", ours)
			}
		}
		if ours == importer || slices.ContainsFunc(r.ours, func(f string) bool { return covers(f, ours) }) {
			return ""
		}
		return "imports " + ours
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for _, prefix := range slices.Concat(r.others, more) {
		if _, ok := below(imported, prefix); ok || prefix == anything {
			return ""
		}
	}
	return "imports " + imported
}

// ruleOf returns the most specific rule for a package.
func ruleOf(path string) (key string, r rule, ok bool) {
	for k, candidate := range rules {
		if covers(k, path) && (!ok || len(k) > len(key) || k == path) && key != path {
			key, r, ok = k, candidate, true
		}
	}
	return key, r, ok
}

// covers reports whether a folder pattern includes path.
func covers(pattern, path string) bool {
	if pattern == anything {
		return true
	}
	root, tree := strings.CutSuffix(pattern, "/...")
	if !tree {
		return pattern == path
	}
	_, ok := below(path, root)
	return ok
}

// below reports whether path is prefix or inside it, and returns the rest.
func below(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

func unique(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
