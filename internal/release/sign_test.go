package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release is signed only with a key that the repository lists, and its signature is one
// of the very bytes.
func TestSigner(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	key := filepath.Join(dir, "key")
	must(t, dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	line, err := publicLine(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if public, err := publicLine(ctx, key+".pub"); err != nil || public != line {
		t.Errorf("the public key is listed as %q, %v; the private one as %q", public, err, line)
	}
	src := source{root: filepath.Join(dir, "root")}
	if err := os.MkdirAll(filepath.Join(src.root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(src.root, "docs", signers)
	shipped, err := os.ReadFile(filepath.Join("..", "..", "docs", signers))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		listed string
		signs  bool
	}{
		"no key":                 {"", false},
		"the file of this state": {string(shipped), false},
		"a comment":              {"# " + line, false},
		"another namespace":      {strings.Replace(line, `"file"`, `"git"`, 1), false},
		"another name":           {strings.Replace(line, identity, "someone@toolgate", 1), false},
		"a key out of date":      {strings.Replace(line, "namespaces=", `valid-before="20200101",namespaces=`, 1), false},
		"the key":                {"# the key of 2026\n" + line, true},
	} {
		write(t, known, tt.listed)
		g, err := newSigner(ctx, settings{key: key}, src)
		if (err == nil) != tt.signs {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), line) {
				t.Errorf("%s: the refusal does not say what to add: %v", name, err)
			}
			continue
		}
		defer g.close()
		out := t.TempDir()
		write(t, filepath.Join(out, checksums), "the sums\n")
		if err := g.sign(ctx, out, checksums); err != nil {
			t.Fatal(err)
		}
		if err := verify(ctx, known, out, checksums); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(out, signers)); err == nil {
			t.Error("a release brings the keys that verify it along, so that whoever changes one changes both")
		}
		write(t, filepath.Join(out, checksums), "other sums\n")
		if err := verify(ctx, known, out, checksums); err == nil {
			t.Error("a changed file has a valid signature")
		}
	}
}
