// Package keyring keeps secrets by name: in the key ring of the system, or sealed in the
// state folder where the system has none.
//
// A file in the state folder has the names. For each it says that the key ring has the
// value, or it has the value itself, sealed. So a secret is read where it was put,
// whoever reads it.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	ring "github.com/zalando/go-keyring"

	"github.com/toolgate/toolgate/config/secret"
)

const (
	// MaxValue is the most bytes of a secret.
	MaxValue = 64 << 10
	// MaxSecrets is how many secrets there may be.
	MaxSecrets = 1000
	// Service is what the key ring of the system knows the secrets under.
	Service = "toolgate"

	// readTime bounds how long the key ring may take for all secrets of a configuration.
	// A person may have to unlock it, but a gateway must not wait for one who is not there.
	readTime = 15 * time.Second
	// changeTime bounds a change, for which a person is there.
	changeTime = time.Minute
)

// Choice says where secrets are put. The zero value is [Auto].
type Choice string

// The choices.
const (
	Auto   Choice = ""       // in the key ring of the system, else in the sealed file
	System Choice = "system" // in the key ring of the system, or nowhere
	File   Choice = "file"   // in the sealed file, and the key ring is never asked
)

// Place is where a secret is.
type Place string

// InSystem is the key ring of the system. Any other place is the path of the sealed file.
const InSystem Place = "the key ring of this system"

// String describes the place.
func (p Place) String() string {
	if p == InSystem {
		return string(p)
	}
	return "the sealed file " + string(p)
}

// ErrNone means that there is no secret of a name.
var ErrNone = secret.ErrNone

// Store keeps secrets. It is safe for concurrent use, by several processes too. It keeps
// nothing in memory.
type Store struct {
	dir    string
	choice Choice
	system *system
}

// New returns the store of a state folder, which need not exist. It touches nothing.
func New(dir, choice string) (*Store, error) {
	s := &Store{dir: dir, choice: Choice(choice), system: own}
	switch s.choice {
	case Auto, System, File:
		return s, nil
	case "auto":
		s.choice = Auto
		return s, nil
	}
	return nil, fmt.Errorf("TOOLGATE_KEYRING is %q; write auto, system or file", choice)
}

// Path returns the path of the file that has the names.
func (s *Store) Path() string { return filepath.Join(s.dir, fileName) }

// Get returns the secret of a name, or [ErrNone].
func (s *Store) Get(ctx context.Context, name string) (string, error) {
	if !secret.Name(name) {
		return "", errName(name)
	}
	all, err := s.read()
	if err != nil {
		return "", err
	}
	e, listed := all.Secrets[name]
	switch {
	case e.Sealed != "":
		return s.open(name, e.Sealed)
	case s.choice == File && listed:
		return "", fmt.Errorf("%w; set it again with `toolgate secret set %s`", errNotAsked, name)
	case s.choice == File:
		return "", ErrNone
	}
	value, err := s.system.get(ctx, name)
	switch {
	case errors.Is(err, ring.ErrNotFound), errors.Is(err, errNoRing) && !listed && s.choice == Auto:
		return "", ErrNone
	case err != nil:
		return "", fmt.Errorf("it is to be in %s: %w", InSystem, err)
	}
	return value, nil
}

// Set keeps a secret under a name, in the place of an older one, and returns where it is.
func (s *Store) Set(ctx context.Context, name, value string) (Place, error) {
	switch {
	case !secret.Name(name):
		return "", errName(name)
	case value == "":
		return "", errors.New("the secret is empty")
	case len(value) > MaxValue:
		return "", fmt.Errorf("the secret has %d bytes and may have %d", len(value), MaxValue)
	case strings.ContainsRune(value, 0):
		return "", errors.New("the secret has a NUL character, which neither a variable nor a header can carry")
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	var place Place
	err := s.change(ctx, func(all *index) error {
		if _, listed := all.Secrets[name]; !listed && len(all.Secrets) >= MaxSecrets {
			return fmt.Errorf("there are %d secrets already; remove those that nothing uses: `toolgate secret ls`, `toolgate secret rm NAME`", len(all.Secrets))
		}
		e := entry{Set: time.Now().UTC()}
		var err error
		place, err = s.put(ctx, name, value, &e)
		all.Secrets[name] = e
		return err
	})
	if err != nil {
		return "", err
	}
	return place, nil
}

// put keeps a value in the key ring, or seals it into its entry.
func (s *Store) put(ctx context.Context, name, value string, e *entry) (Place, error) {
	if s.choice != File {
		switch err := s.system.set(ctx, name, value); {
		case err == nil:
			return InSystem, nil
		case s.choice == System:
			return "", fmt.Errorf("put it into %s: %w", InSystem, err)
		case errors.Is(err, errNoRing):
		case errors.Is(err, ring.ErrSetDataTooBig):
			// An older value would come back with the next removal of the sealed one.
			if err := s.system.remove(ctx, name); err != nil && !errors.Is(err, ring.ErrNotFound) {
				return "", fmt.Errorf("remove the older one from %s: %w", InSystem, err)
			}
		default:
			return "", fmt.Errorf("put it into %s: %w; unlock the key ring, or set TOOLGATE_KEYRING=file to keep it in a sealed file", InSystem, err)
		}
	}
	sealed, err := s.seal(name, value)
	if err != nil {
		return "", err
	}
	e.Sealed = sealed
	return Place(s.Path()), nil
}

// Remove forgets a secret. It returns [ErrNone] if there is none.
func (s *Store) Remove(ctx context.Context, name string) error {
	if !secret.Name(name) {
		return errName(name)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return s.change(ctx, func(all *index) error {
		e, listed := all.Secrets[name]
		delete(all.Secrets, name)
		if s.choice == File {
			switch {
			case !listed:
				return ErrNone
			case e.Sealed == "":
				return errNotAsked
			}
			return nil
		}
		// A sealed secret may have an older value in the key ring, which must not come back.
		switch err := s.system.remove(ctx, name); {
		case err == nil:
		case errors.Is(err, ring.ErrNotFound), errors.Is(err, errNoRing) && (!listed || e.Sealed != ""):
			if !listed {
				return ErrNone
			}
		default:
			return fmt.Errorf("remove it from %s: %w", InSystem, err)
		}
		return nil
	})
}

// errNotAsked means that the key ring has a secret, and is not to be asked.
var errNotAsked = fmt.Errorf("it is in %s, which is not asked because of TOOLGATE_KEYRING=file", InSystem)

func errName(name string) error {
	return fmt.Errorf(`%.60q is no name of a secret; a name begins with a letter, digit or "_", and has up to %d of these, "-" and "."`, name, secret.MaxName)
}

// Reading looks up the secrets of one configuration. It asks once for each name, and
// the key ring may take [readTime] for all of them. One goroutine may use it at a time.
type Reading struct {
	store *Store
	known map[string]answer
	until time.Time // zero before the first secret
}

type answer struct {
	value string
	err   error
}

// Reading returns a lookup for one configuration.
func (s *Store) Reading() *Reading { return &Reading{store: s, known: map[string]answer{}} }

// Secret returns the secret of a name, or an error such as [ErrNone].
func (r *Reading) Secret(name string) (string, error) {
	a, ok := r.known[name]
	if !ok {
		if r.until.IsZero() {
			r.until = time.Now().Add(readTime)
		}
		ctx, cancel := context.WithDeadline(context.Background(), r.until)
		defer cancel()
		a.value, a.err = r.store.Get(ctx, name)
		r.known[name] = a
	}
	return a.value, a.err
}

// Files returns the file that changes with the secrets, once one was looked up.
func (r *Reading) Files() []string {
	if len(r.known) == 0 {
		return nil
	}
	return []string{r.store.Path()}
}
