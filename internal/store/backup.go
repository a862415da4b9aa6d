package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the store to a new file, readable only by its owner, as of one instant.
// It works while another process writes the store. The copy appears complete or not at
// all; existing files are never overwritten. PostgreSQL databases and stores in memory
// cannot be copied: both are errors.
func (s *Store) Backup(ctx context.Context, to string) (err error) {
	switch {
	case s.read == nil:
		return ErrClosed
	case s.listen != nil:
		return fmt.Errorf("back up store %s: the server's own tools make copies of it, such as pg_dump", s.path)
	case s.path == Memory:
		return errors.New("back up store: a store in memory ends with its process; name a file")
	}
	if to, err = filepath.Abs(to); err != nil {
		return fmt.Errorf("back up store %s: %w", s.path, err)
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("back up store %s: %s is there already; name a file that is not", s.path, to)
	}
	// A folder of its own keeps the unfinished copy private.
	dir, err := os.MkdirTemp(filepath.Dir(to), ".backup-")
	if err != nil {
		return fmt.Errorf("back up store %s: %w", s.path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	made := filepath.Join(dir, "store.db")
	if err := s.vacuumInto(ctx, made); err != nil {
		return explain(s.path, "back up store", err)
	}
	if err := publish(made, to); err != nil {
		return fmt.Errorf("back up store %s: %w", s.path, err)
	}
	return nil
}

// vacuumInto writes a copy through a connection of its own, because the reading
// connections refuse to write.
func (s *Store) vacuumInto(ctx context.Context, made string) error {
	params := commonParams()
	params.Set("mode", "ro")
	db, err := connect(s.path, 1, params)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", made)
	return errors.Join(err, db.Close())
}

// publish syncs a finished file and gives it its name, unless that is taken.
func publish(made, to string) error {
	f, err := os.OpenFile(made, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	err = os.Link(made, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(made, to) // a file system without hard links
	}
	return err
}
