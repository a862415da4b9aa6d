package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
)

// chains writes one log after the other at the same path, each a chain of its own
// since the files before it were moved away, and returns the bytes of each.
func chains(t *testing.T, path, replica string, n int) (whole [][]byte, anchors *keep) {
	t.Helper()
	anchors = &keep{heads: make(map[string]audit.Head)}
	for range n {
		var all []byte
		for range 2 { // runs
			l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Replica: replica, Fsync: audit.FsyncNone, Anchor: anchors.put})
			if err != nil {
				t.Fatal(err)
			}
			add(t, l, "a", "b")
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			all = read(t, path)
		}
		whole = append(whole, all)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return whole, anchors
}

// Lines of a gateway are genuine only in their place.
func TestVerifyFindsWholeChainsInAnotherPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	own, anchors := chains(t, path, "r", 3)
	foreign, others := chains(t, path, "another", 1)
	unknown, _ := chains(t, path, "r", 1)
	join := func(all ...[]byte) []byte { return bytes.Join(all, nil) }
	run := bytes.LastIndex(own[0], []byte("\n{\"seq\":4,")) + 1 // where its second run begins
	if run == 0 {
		t.Fatalf("%s", own[0])
	}
	for name, c := range map[string]struct {
		aside, file []byte
		want        string
	}{
		"as they were written":         {join(own[0], own[1]), own[2], ""},
		"in one file":                  {nil, join(own...), ""},
		"a whole chain again":          {join(own[0], own[1]), join(own[2], own[0]), "comes again"},
		"a run again":                  {join(own[0], own[1]), join(own[2], own[0][run:]), "comes again"},
		"the last chain again":         {join(own[0], own[1]), join(own[2], own[2]), "twice"},
		"in another order":             {join(own[1], own[0]), own[2], "before the chain"},
		"an old one as the newest":     {own[1], join(own[2], own[0]), "before the chain"},
		"of another gateway":           {join(own[0], own[1]), join(own[2], foreign[0]), "is of another gateway, another"},
		"of another gateway, in front": {join(foreign[0], own[0], own[1]), own[2], "is of another gateway, another"},
		"of nobody":                    {join(own[0], own[1]), join(own[2], unknown[0]), "was never anchored"},
		"another instead":              {join(own[0], own[1]), foreign[0], "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if c.aside != nil {
				if err := os.WriteFile(path+".old", c.aside, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			files, err := audit.Files(path)
			if err != nil {
				t.Fatal(err)
			}
			report, err := audit.Verify(files, []audit.Key{audit.TestKey}, anchors.all(), others.all())
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for _, f := range report.Findings {
				said.WriteString(f.Text + "\n")
			}
			if got := said.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("findings, want %q:\n%s", c.want, got)
			}
		})
	}
}

// A changed mark does not prevent a gateway from starting, and is found.
func TestAChangedMarkStopsNothing(t *testing.T) {
	path, anchors := filled(t)
	whole := read(t, path)
	changed := bytes.Replace(whole, []byte(`"torn":`), []byte(`"torn"!`), 1)
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Replica: "r", Fsync: audit.FsyncNone, Anchor: anchors.put})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, path, anchors.all()); len(got.Findings) == 0 || got.Chains != 1 {
		t.Errorf("%+v", got)
	}
}
