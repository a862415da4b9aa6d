package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	checksums = "checksums.txt"
	// signers lists the keys that may sign a release (ssh-keygen(1), ALLOWED SIGNERS).
	signers   = "allowed_signers"
	identity  = "release@toolgate"
	namespace = "file"
)

// signer signs with ssh-keygen, which nearly every machine has to verify with.
type signer struct {
	key    string
	public string // the line of the key in an allowed_signers file
	dir    string // of a key that was made for a rehearsal
	dry    bool
}

// newSigner returns the signer of a release: with the key of the flag, which the
// repository must list, or with a new one for a rehearsal.
func newSigner(ctx context.Context, s settings, src source) (*signer, error) {
	g := &signer{key: s.key, dry: s.dry}
	if s.dry {
		dir, err := os.MkdirTemp("", "toolgate-release-key-")
		if err != nil {
			return nil, err
		}
		g.dir, g.key = dir, filepath.Join(dir, "key")
		if _, err := run(ctx, dir, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rehearsal", "-f", g.key); err != nil {
			g.close()
			return nil, err
		}
	}
	public, err := run(ctx, ".", nil, "ssh-keygen", "-y", "-f", g.key)
	if strings.HasSuffix(g.key, ".pub") {
		var data []byte
		data, err = os.ReadFile(g.key)
		public = string(data)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	words := strings.Fields(public)
	if len(words) < 2 {
		g.close()
		return nil, fmt.Errorf("%s is no SSH key", g.key)
	}
	g.public = fmt.Sprintf("%s namespaces=%q %s %s\n", identity, namespace, words[0], words[1])
	if s.dry {
		return g, nil
	}
	known, err := os.ReadFile(filepath.Join(src.root, "docs", signers))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !strings.Contains(string(known), g.public) {
		return nil, fmt.Errorf("docs/%s does not list the key %s, so nobody could verify the release: add this line and commit it\n%s", signers, g.key, g.public)
	}
	return g, nil
}

// close removes a key that was made for a rehearsal.
func (g *signer) close() {
	if g.dir != "" {
		_ = os.RemoveAll(g.dir) // a key that nobody trusts
	}
}

// sign signs a file; the signature is in NAME.sig. A rehearsal leaves its public key
// beside it.
func (g *signer) sign(ctx context.Context, dir, name string) error {
	path := filepath.Join(dir, name)
	if err := os.Remove(path + ".sig"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := run(ctx, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-f", g.key, "-n", namespace, path); err != nil {
		return err
	}
	if g.dry {
		return os.WriteFile(filepath.Join(dir, signers), []byte(g.public), 0o644)
	}
	return nil
}
