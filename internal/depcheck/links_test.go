package depcheck_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

var (
	// fence begins or ends a block of code, in which nothing is a link.
	fence   = regexp.MustCompile("(?m)^ *```")
	span    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// TestLinks checks that each relative link of each document leads to a file, and each
// fragment to a heading of it.
func TestLinks(t *testing.T) {
	links := 0
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(prose(t, page), ""), -1) {
			target, fragment, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, ":") {
				continue // somebody else's page
			}
			links++
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
				continue
			}
			if fragment != "" && !anchors(t, to)[fragment] {
				t.Errorf("%s: %s has no heading for #%s", page, to, fragment)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// TestIndex checks that docs/README.md leads to each page beside it.
func TestIndex(t *testing.T) {
	index := prose(t, filepath.Join(root, "docs", "README.md"))
	beside, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(beside) < 20 {
		t.Fatalf("%d pages, %v", len(beside), err)
	}
	for _, page := range beside {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// pages returns the documents of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "out" || d.Name() == "node_modules" || d.Name() == "testdata" || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("%d documents, %v", len(all), err)
	}
	return all
}

// prose returns a document without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, part := range fence.Split(string(text), -1) {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

// anchors returns the fragments of a document's headings, as GitHub makes them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		name := strings.ToLower(strings.TrimSpace(dropped.ReplaceAllString(h[1], "")))
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
