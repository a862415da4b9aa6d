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
	dir    string // of its own: for a trial, and for a key that was made for a rehearsal
	dry    bool
}

// newSigner returns the signer of a release: with the key of the flag, which the
// repository must list, or with a new one for a rehearsal. Its first signature is
// verified, so that a long build is not in vain.
func newSigner(ctx context.Context, s settings, src source) (_ *signer, err error) {
	g := &signer{key: s.key, dry: s.dry}
	if g.dir, err = os.MkdirTemp("", "toolgate-release-key-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if s.dry {
		g.key = filepath.Join(g.dir, "key")
		if _, err := run(ctx, g.dir, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rehearsal", "-f", g.key); err != nil {
			return nil, err
		}
	}
	if g.public, err = publicLine(ctx, g.key); err != nil {
		return nil, err
	}
	known := filepath.Join(src.root, "docs", signers)
	if s.dry {
		known = filepath.Join(g.dir, signers)
		if err := os.WriteFile(known, []byte(g.public), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(g.dir, checksums), []byte("a trial\n"), 0o644); err != nil {
		return nil, err
	}
	if err := g.sign(ctx, g.dir, checksums); err != nil {
		return nil, err
	}
	if err := verify(ctx, known, g.dir, checksums); err != nil {
		return nil, fmt.Errorf("docs/%s does not list the key %s, so nobody could verify the release: add this line and commit it\n%s\n%w", signers, g.key, g.public, err)
	}
	return g, nil
}

// publicLine returns the line that lists a key in an allowed_signers file. key is a file
// with a private key, or with the public one of a key in the agent.
func publicLine(ctx context.Context, key string) (string, error) {
	var public string
	var err error
	if strings.HasSuffix(key, ".pub") {
		var data []byte
		data, err = os.ReadFile(key)
		public = string(data)
	} else {
		public, err = run(ctx, ".", nil, "ssh-keygen", "-y", "-f", key)
	}
	if err != nil {
		return "", err
	}
	words := strings.Fields(public)
	if len(words) < 2 {
		return "", fmt.Errorf("%s is no SSH key", key)
	}
	return fmt.Sprintf("%s namespaces=%q %s %s\n", identity, namespace, words[0], words[1]), nil
}

// close removes what was made for the signer alone.
func (g *signer) close() {
	_ = os.RemoveAll(g.dir) // a key that nobody trusts
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

// verify verifies the signature of a file by the keys in allowed, as docs/install.md
// does.
func verify(ctx context.Context, allowed, dir, name string) error {
	signed, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer signed.Close()
	return runWith(ctx, signed, "ssh-keygen", "-Y", "verify", "-f", allowed, "-I", identity, "-n", namespace, "-s", filepath.Join(dir, name+".sig"))
}
