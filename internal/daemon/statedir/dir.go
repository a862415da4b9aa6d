// Package statedir manages a gateway's persistent state: one folder for each
// configuration file, with its keys, its control socket and its store.
package statedir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/seal"
)

// Dir is the state folder of one configuration. It holds the store, the audit log, the
// generated keys and the admin token. Only its user can read it.
type Dir struct {
	Path   string
	Socket string
}

// Find returns the state folder of a configuration, which need not exist.
func Find(configPath string) (*Dir, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	name := "default"
	if configPath != "" {
		abs, err := filepath.Abs(configPath)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", configPath, err)
		}
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			abs = real
		}
		sum := sha256.Sum256([]byte(abs))
		name = hex.EncodeToString(sum[:8])
	}
	s := &Dir{Path: filepath.Join(root, name)}
	s.Socket = SocketPath(s.Path)
	return s, nil
}

// Open returns the state folder of a configuration, and creates it if absent.
func Open(configPath string) (*Dir, error) {
	s, err := Find(configPath)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Path, 0o700); err != nil {
		return nil, failure.Newf(failure.Config, "make the state folder: %w; set TOOLGATE_STATE to a folder that you may write to", err)
	}
	if err := makePrivate(s.Path); err != nil {
		return nil, err
	}
	if filepath.Dir(s.Socket) != s.Path {
		if err := MakeSocketDir(filepath.Dir(s.Socket), os.Getuid()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// makePrivate removes permissions that others got from an earlier umask or from a
// person.
func makePrivate(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make the state folder private: %w", err)
	}
	return nil
}

func Root() (string, error) {
	if dir := os.Getenv("TOOLGATE_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toolgate"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "toolgate", "state"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", failure.Newf(failure.Config, "find the state folder: %w; set HOME, or set TOOLGATE_STATE to a folder that you may write to", err)
	}
	return filepath.Join(home, ".local", "state", "toolgate"), nil
}

// MaxSocketPath is the length of a socket's path that all systems support.
const MaxSocketPath = 100

// SocketPath returns the path of the control socket: in the state folder, or in a
// short folder of the user if that path is too long.
func SocketPath(dir string) string {
	path := filepath.Join(dir, "control.sock")
	if len(path) <= MaxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(dir))
	short := filepath.Join(os.TempDir(), "toolgate-"+strconv.Itoa(os.Getuid()))
	return filepath.Join(short, hex.EncodeToString(sum[:8])+".sock")
}

// MakeSocketDir creates the short folder, or checks the existing one, because
// everybody may create a folder of that name among temporary files. It accepts only a
// real folder, no link, that belongs to the user alone.
func MakeSocketDir(dir string, uid int) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder of the control socket: %w; set TOOLGATE_STATE to a short path, so that the socket fits into it", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the folder of the control socket: %w", err)
	}
	fault := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		fault = "is a link"
	case !info.IsDir():
		fault = "is not a folder"
	case !ownedBy(info, uid):
		fault = "belongs to another user"
	case runtime.GOOS != "windows" && info.Mode().Perm() != 0o700:
		fault = fmt.Sprintf("has the mode %#o instead of 0700, so that others reach it", info.Mode().Perm())
	default:
		return nil
	}
	return failure.Newf(failure.Config, "%s, for the control socket, %s; remove it, or set TOOLGATE_STATE to a path of at most %d characters, so that it is not needed",
		dir, fault, MaxPath)
}

// MaxPath is how long TOOLGATE_STATE may be, so that the control socket fits into the
// folder of a configuration below it.
const MaxPath = MaxSocketPath - len("/0123456789abcdef/control.sock")

// Secret returns the contents of a secret file. The first call creates it with random
// text.
func (s *Dir) Secret(name string) (string, error) {
	path := filepath.Join(s.Path, name)
	text, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	if err := s.Create(name, base64.RawURLEncoding.EncodeToString(random[:])); err != nil {
		return "", err
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Create creates a one-line file that only its user can read, atomically. An existing
// file stays unchanged.
func (s *Dir) Create(name, line string) error {
	path := filepath.Join(s.Path, name)
	temp, err := os.CreateTemp(s.Path, name+".*") // created with mode 0600
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(line + "\n")
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}

// Replace creates or replaces a one-line file that only its user can read.
func (s *Dir) Replace(name, line string) error {
	path := filepath.Join(s.Path, name)
	temp, err := os.CreateTemp(s.Path, name+".*") // created with mode 0600
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(line + "\n")
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}

// Keyring returns the keys for the state that clients carry: the configured ones, or a
// generated one in the state folder.
func (s *Dir) Keyring(configured []seal.KeySettings) (*seal.Keyring, error) {
	if len(configured) == 0 {
		text, err := s.Secret("seal.key")
		if err != nil {
			return nil, err
		}
		secret, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("the key in %s is damaged: %w; remove the file, and the next start makes a new one (open cursors and sessions end with the old one)", filepath.Join(s.Path, "seal.key"), err)
		}
		return seal.NewKeyring(seal.Key{ID: "local", Secret: secret})
	}
	keys := make([]seal.Key, len(configured))
	for i, k := range configured {
		var err error
		if keys[i], err = k.Read(); err != nil {
			return nil, err
		}
	}
	return seal.NewKeyring(keys...)
}

// Replica returns the name of this gateway among those that share its store. It stays
// the same for a state folder.
func (s *Dir) Replica() (string, error) {
	text, err := s.Secret("replica.id")
	if err != nil {
		return "", err
	}
	return text[:min(len(text), 16)], nil
}
