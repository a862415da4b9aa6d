package files_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/plugins/files"
	"github.com/toolgate/toolgate/native/toolapi"
)

// folder makes a temporary folder and returns its real path.
func folder(t *testing.T) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// put writes files beneath a folder: a name that ends in a slash is a folder.
func put(t *testing.T, in string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(in, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(name), 0o644))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, rules files.Rules) *files.Tree {
	t.Helper()
	tree, err := files.Open(rules)
	must(t, err)
	t.Cleanup(tree.Close)
	return tree
}

func read(tree *files.Tree, path string) (string, error) {
	f, err := tree.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

// refused asserts that an error is told to whoever called and names a rule.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	problem, ok := errors.AsType[toolapi.Problem](err)
	if !ok || !strings.Contains(string(problem), want) {
		t.Errorf("%s: %v, want a problem with %q", what, err, want)
	}
}

func TestPaths(t *testing.T) {
	dir := folder(t)
	put(t, dir, "in/a", "in/sub/b", "out", "inside/c", "single", "singles")
	in := filepath.Join(dir, "in")
	tree := open(t, files.Rules{Roots: []string{in, filepath.Join(dir, "single")}, Write: []string{in}})
	for path, want := range map[string]string{
		in + "/a":                       "",
		in + "/sub/b":                   "",
		dir + "/single":                 "",
		"":                              "is empty",
		"a":                             "not absolute",
		"~/a":                           "not absolute",
		"file://" + in + "/a":           "not absolute",
		in + "/../out":                  "not written plainly",
		in + "/sub/../a":                "not written plainly",
		in + "//a":                      "not written plainly",
		in + "/./a":                     "not written plainly",
		in + "/a/":                      "not written plainly",
		in + "/..%2fout":                "There is no",
		in + "/%2e%2e/out":              "There is no",
		in + "/a\x00b":                  "control characters",
		in + "/a\nb":                    "control characters",
		in + "/a\x1b[2K":                "control characters",
		in + "/\xff":                    "not UTF-8",
		dir + "/out":                    "outside of what this tool reaches. Allowed: " + in + ", " + dir + "/single.",
		dir + "/inside/c":               "outside of what",
		dir + "/singles":                "outside of what",
		dir:                             "outside of what",
		in:                              "is a folder",
		in + "/none":                    "There is no",
		in + "/a/b":                     "",
		"/" + strings.Repeat("x", 5000): "at most 4096",
	} {
		text, err := read(tree, path)
		switch {
		case path == in+"/a/b":
			if err == nil {
				t.Error("a file was a folder")
			}
		case want != "":
			refused(t, path, err, want)
			_, err = tree.Write(path, files.Change{Data: []byte("x")})
			if err == nil && !strings.Contains(want, "There is no") {
				t.Errorf("%q was written", path)
			}
		case err != nil || !strings.HasSuffix(path, text):
			t.Errorf("%q: %q, %v", path, text, err)
		}
	}
}

// The zero Tree reaches nothing.
func TestNothing(t *testing.T) {
	var tree files.Tree
	_, err := tree.Open("/etc/passwd")
	refused(t, "read", err, "Nothing is allowed")
	_, err = tree.Write("/tmp/x", files.Change{})
	refused(t, "write", err, "Nothing is allowed")
	refused(t, "delete", tree.Remove("/tmp/x"), "Nothing is allowed")
}

func TestRootsMustExist(t *testing.T) {
	dir := folder(t)
	for what, rules := range map[string]files.Rules{
		"a root that is not there":    {Roots: []string{filepath.Join(dir, "none")}},
		"a relative root":             {Roots: []string{"."}},
		"a write folder that is none": {Roots: []string{dir}, Write: []string{filepath.Join(dir, "none")}},
		"a glob that is none":         {Roots: []string{dir}, Globs: []string{"[a"}},
		"a relative glob":             {Roots: []string{dir}, Globs: []string{"a/b"}},
		"an empty glob":               {Roots: []string{dir}, Globs: []string{""}},
	} {
		if _, err := files.Open(rules); err == nil {
			t.Errorf("%s was opened", what)
		}
	}
}

func TestForbidden(t *testing.T) {
	dir := folder(t)
	put(t, dir, "conf/toolgate.yaml", "conf/policy/a.rego", "conf/policy/deep/b.rego", "conf/notes", "conf/server/main.py",
		"conf/.env", "conf/sub/.env", "conf/keys/one.pem", "conf/policy2")
	conf := filepath.Join(dir, "conf")
	must(t, os.Symlink("toolgate.yaml", filepath.Join(conf, "link")))
	must(t, os.Symlink("policy", filepath.Join(conf, "linked")))
	must(t, os.Link(filepath.Join(conf, "toolgate.yaml"), filepath.Join(conf, "hard")))
	tree := open(t, files.Rules{
		Roots: []string{conf}, Write: []string{conf}, HardLinks: true,
		Forbidden: []string{conf + "/toolgate.yaml", conf + "/policy", conf + "/state/store.db"},
		Fixed:     []string{conf + "/server"}, Globs: []string{".env", "**/keys/*.pem"},
	})
	for name, want := range map[string]string{
		"notes":               "",
		"policy2":             "",
		"toolgate.yaml":       "is forbidden",
		"policy/a.rego":       "is forbidden",
		"policy/deep/b.rego":  "is forbidden",
		"policy/new":          "is forbidden",
		"link":                "is forbidden",
		"linked/a.rego":       "is forbidden",
		"linked/deep/b.rego":  "is forbidden",
		"hard":                "is forbidden",
		"server/main.py":      "changed only",
		"server/json.py":      "changed only",
		"server/__pycache__":  "changed only",
		".env":                "pattern .env",
		"sub/.env":            "pattern .env",
		"sub/.env/x":          "changed only, pattern",
		"keys/one.pem":        "pattern **/keys/*.pem",
		"state":               "changed only",
		"state/store.db":      "changed only",
		"TOOLGATE.yaml":       "changed only",
		"toolgate.ya\u200bml": "changed only",
		"Policy":              "changed only",
		"ſtate":               "changed only",
		"STATE/STORE.DB":      "changed only",
		"ｔoolgate.yaml":       "changed only",
	} {
		path := filepath.Join(conf, name)
		before, _ := os.ReadFile(path)
		changeOnly := strings.HasPrefix(want, "changed only")
		if _, err := read(tree, path); want != "" && !changeOnly && !strings.Contains(name, "new") {
			refused(t, "read "+name, err, want)
		} else if want == "" && err != nil {
			t.Errorf("read %s: %v", name, err)
		}
		_, err := tree.Write(path, files.Change{Data: []byte("changed"), Folders: true})
		if want == "" {
			must(t, err)
			continue
		}
		if err == nil {
			t.Errorf("%s was written", name)
		}
		if err := tree.Remove(path); err == nil {
			t.Errorf("%s was deleted", name)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s holds %q", name, after)
		}
	}
	for _, name := range []string{"policy", "policy/deep", "linked"} {
		_, err := tree.OpenDir(filepath.Join(conf, name))
		refused(t, "list "+name, err, "forbidden")
	}
	if d, err := tree.OpenDir(conf + "/server"); err != nil {
		t.Error(err)
	} else {
		d.Close()
	}
	if _, err := os.Lstat(filepath.Join(conf, "state")); err == nil {
		t.Error("the folder of a store that does not exist was made")
	}
}

// What is forbidden is so on its real path, also where it was configured through a
// link, and where it was replaced since.
func TestForbiddenByIdentity(t *testing.T) {
	dir := folder(t)
	put(t, dir, "root/real/conf", "root/real/other")
	root := filepath.Join(dir, "root")
	must(t, os.Symlink(filepath.Join(root, "real"), filepath.Join(dir, "way")))
	tree := open(t, files.Rules{Roots: []string{root}, Write: []string{root}, HardLinks: true, Forbidden: []string{filepath.Join(dir, "way", "conf"), filepath.Join(dir, "way", "later")}})
	for _, name := range []string{"conf", "later"} {
		_, err := tree.Write(filepath.Join(root, "real", name), files.Change{})
		refused(t, name, err, "forbidden")
	}
	must(t, os.Rename(filepath.Join(root, "real", "conf"), filepath.Join(root, "real", "old")))
	must(t, os.WriteFile(filepath.Join(root, "real", "conf"), []byte("new"), 0o600))
	must(t, os.Link(filepath.Join(root, "real", "conf"), filepath.Join(root, "twin")))
	_, err := read(tree, filepath.Join(root, "twin"))
	refused(t, "twin of the new one", err, "forbidden")
	if _, err := read(tree, filepath.Join(root, "real", "other")); err != nil {
		t.Error(err)
	}
}

func TestWrite(t *testing.T) {
	dir := folder(t)
	put(t, dir, "w/old", "w/setuid", "r/file", "elsewhere")
	w := filepath.Join(dir, "w")
	must(t, os.Chmod(filepath.Join(w, "old"), 0o640))
	must(t, os.Chmod(filepath.Join(w, "setuid"), 0o755|os.ModeSetuid|os.ModeSetgid))
	must(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(w, "away")))
	must(t, os.Symlink("old", filepath.Join(w, "near")))
	must(t, os.Symlink("none", filepath.Join(w, "dangling")))
	must(t, os.Link(filepath.Join(dir, "elsewhere"), filepath.Join(w, "hard")))
	tree := open(t, files.Rules{Roots: []string{dir}, Write: []string{w}})
	for _, tc := range []struct {
		name   string
		change files.Change
		want   string
	}{
		{"w/old", files.Change{Data: []byte("now")}, ""},
		{"w/setuid", files.Change{Data: []byte("now")}, ""},
		{"w/new", files.Change{Data: []byte("now")}, ""},
		{"w/fresh", files.Change{Data: []byte("now"), New: true}, ""},
		{"w/a/b/c", files.Change{Data: []byte("now"), Folders: true}, ""},
		{"w/empty", files.Change{}, ""},
		{"w/fresh", files.Change{New: true}, "exists already"},
		{"w/x/y", files.Change{}, "There is no"},
		{"w/away", files.Change{}, "is link"},
		{"w/near", files.Change{}, "is link"},
		{"w/dangling", files.Change{}, "is link"},
		{"w/hard", files.Change{}, "hard links"},
		{"w/a", files.Change{}, "is a folder"},
		{"w", files.Change{}, "may not be changed"},
		{"r/file", files.Change{}, "may not be changed. Files may be changed in: " + w},
		{"r/x/y", files.Change{Folders: true}, "may not be changed"},
		{"elsewhere", files.Change{}, "may not be changed"},
	} {
		path := filepath.Join(dir, tc.name)
		_, err := tree.Write(path, tc.change)
		if tc.want != "" {
			refused(t, tc.name, err, tc.want)
			continue
		}
		must(t, err)
		if data, _ := os.ReadFile(path); string(data) != string(tc.change.Data) {
			t.Errorf("%s holds %q", tc.name, data)
		}
	}
	for name, want := range map[string]os.FileMode{"old": 0o640, "setuid": 0o755} {
		if info, err := os.Stat(filepath.Join(w, name)); err != nil || info.Mode() != want {
			t.Errorf("%s has %v, want %v", name, info.Mode(), want)
		}
	}
	for _, name := range []string{"elsewhere", "r/file"} {
		if data, _ := os.ReadFile(filepath.Join(dir, name)); string(data) != name {
			t.Errorf("%s holds %q", name, data)
		}
	}
	refused(t, "delete a folder", tree.Remove(filepath.Join(w, "a")), "is a folder")
	refused(t, "delete a link", tree.Remove(filepath.Join(w, "near")), "link")
	refused(t, "delete elsewhere", tree.Remove(filepath.Join(dir, "elsewhere")), "may not be changed")
	must(t, tree.Remove(filepath.Join(w, "new")))
	refused(t, "delete again", tree.Remove(filepath.Join(w, "new")), "There is no")
	leftovers(t, w)
}

// leftovers asserts that no temporary file is left.
func leftovers(t *testing.T, in string) {
	t.Helper()
	must(t, filepath.WalkDir(in, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, ".toolgate-") {
			t.Errorf("%s was left", path)
		}
		return err
	}))
}

func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		f.Fatal(err)
	}
	in := filepath.Join(dir, "in")
	for _, name := range []string{"in/a", "in/b/c", "in/secret/d", "out"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
			f.Fatal(err)
		}
	}
	for name, to := range map[string]string{"up": "..", "away": dir, "near": "b", "hide": "secret", "self": "self"} {
		if err := os.Symlink(to, filepath.Join(in, name)); err != nil {
			f.Fatal(err)
		}
	}
	tree, err := files.Open(files.Rules{Roots: []string{in}, Forbidden: []string{in + "/secret"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(tree.Close)
	for _, seed := range []string{"/a", "/b/c", "/../out", "/up/out", "/away/out", "/hide/d", "/near/c", "/self", "/b/../secret/d", "//secret/d", "/SECRET/d", "/a\x00", "/near/../secret/d", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		for _, path := range []string{rest, in + rest} {
			text, err := read(tree, path)
			if err == nil && text != "in/a" && text != "in/b/c" {
				t.Errorf("%q gave %q", path, text)
			}
			if err != nil {
				if _, ok := errors.AsType[toolapi.Problem](err); !ok {
					t.Errorf("%q: %v is not a problem", path, err)
				}
			}
		}
	})
}
