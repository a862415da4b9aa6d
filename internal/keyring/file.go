package keyring

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/filelock"
	"github.com/toolgate/toolgate/internal/seal"
)

const (
	fileName = "secrets.json"
	keyName  = "secrets.key"
	// maxFile bounds the file: MaxSecrets of MaxValue, encoded and sealed, are more than
	// anybody has.
	maxFile = 8 << 20
	// label is the purpose of what is sealed.
	label = seal.Kept + "secret"
	// lockPause is how long a change waits before it looks again whether another one has
	// ended.
	lockPause = 10 * time.Millisecond
	// lockTime bounds this wait.
	lockTime = 10 * time.Second
)

// index is the contents of the file.
type index struct {
	Version int              `json:"version"`
	Secrets map[string]entry `json:"secrets"`
}

// entry is one secret. Without a sealed value it is in the key ring of the system.
type entry struct {
	Sealed string    `json:"sealed,omitempty"`
	Set    time.Time `json:"set"`
}

// Names returns the names of all secrets that were set, sorted.
func (s *Store) Names() ([]string, error) {
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(all.Secrets)), nil
}

// read reads the file; without one there are no secrets.
func (s *Store) read() (index, error) {
	all := index{Version: 1, Secrets: map[string]entry{}}
	data, err := private(s.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return all, nil
	case err != nil:
		return index{}, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return index{}, fmt.Errorf("%s is damaged: %w; restore it, or remove it and set the secrets again", s.Path(), err)
	}
	if all.Version != 1 || all.Secrets == nil {
		return index{}, fmt.Errorf("%s was written by another version of toolgate; use that one, or remove the file and set the secrets again", s.Path())
	}
	for name := range all.Secrets {
		if !secret.Name(name) {
			return index{}, fmt.Errorf("%s is damaged: %w; remove that entry", s.Path(), errName(name))
		}
	}
	return all, nil
}

// private reads a file that only its user may be able to read.
func private(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; see who put it there, and remove it", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s holds secrets, and others may read it (mode %#o); run `chmod 600 %s`", path, info.Mode().Perm(), path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes and may have %d; remove secrets that nothing uses", path, info.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// change reads the file, has it changed, and replaces it. One change runs at a time, in
// all processes together. After an error the file is as it was.
func (s *Store) change(ctx context.Context, how func(*index) error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w; set TOOLGATE_STATE to a folder that you may write to", err)
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	all, err := s.read()
	if err != nil {
		return err
	}
	if err := how(&all); err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if len(data) >= maxFile {
		return fmt.Errorf("%s would have %d bytes and may have %d; remove secrets that nothing uses", s.Path(), len(data), maxFile)
	}
	return replace(s.Path(), append(data, '\n'))
}

func (s *Store) lock(ctx context.Context) (*filelock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for {
		lock, err := filelock.Take(s.Path())
		held, busy := errors.AsType[*filelock.HeldError](err)
		if !busy {
			return lock, err
		}
		if backoff.Sleep(ctx, lockPause) != nil {
			return nil, fmt.Errorf("%w, which is changing the secrets; try again", held)
		}
	}
}

// replace writes a file that only its user can read, in the place of an older one.
func replace(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // created with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}

func (s *Store) seal(name, value string) (string, error) {
	keys, err := s.key(true)
	if err != nil {
		return "", err
	}
	return keys.Seal(label, name, []byte(value))
}

func (s *Store) open(name, sealed string) (string, error) {
	keys, err := s.key(false)
	if err != nil {
		return "", err
	}
	value, err := keys.Open(label, name, sealed)
	if err != nil {
		return "", fmt.Errorf("it was sealed with another key than that in %s; restore that file, or set it again with `toolgate secret set %s`", filepath.Join(s.dir, keyName), name)
	}
	return string(value), nil
}

// key returns the key of the sealed values: random bytes in a file beside them. It makes
// them only for a change, while the lock is held.
func (s *Store) key(create bool) (*seal.Keyring, error) {
	path := filepath.Join(s.dir, keyName)
	text, err := private(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails
		text = []byte(base64.RawURLEncoding.EncodeToString(random[:]) + "\n")
		err = replace(path, text)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the key %s is gone; restore it, or set the secrets again", path)
	}
	if err != nil {
		return nil, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) < 32 {
		return nil, fmt.Errorf("the key in %s is damaged; restore it, or remove it and set the secrets again", path)
	}
	return seal.NewKeyring(seal.Key{ID: "local", Secret: raw})
}
