package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolgate/toolgate/native/toolapi"
)

// Change describes how a file is written.
type Change struct {
	Data    []byte
	New     bool // it must not exist
	Folders bool // create missing folders on the way
}

// Write writes a file. Readers see the old or the new content, never a part. It keeps the
// permissions of the file that it replaces, except set-user-ID and set-group-ID, and
// follows no link. It reports whether there was a file. Every error is a [toolapi.Problem].
func (t *Tree) Write(path string, c Change) (replaced bool, err error) {
	at, err := t.place(path, c.Folders)
	if err != nil {
		return false, t.explain(path, err)
	}
	defer at.dir.Close()
	old, err := t.replaceable(at, path)
	switch {
	case err != nil:
		return false, t.explain(path, err)
	case old != nil && c.New:
		return false, toolapi.Problemf("%q exists already, and it was asked for a new file.", path)
	}
	if err := t.write(at, old, c); err != nil {
		return false, t.explain(path, err)
	}
	return old != nil, nil
}

// Remove deletes a file. Every error is a [toolapi.Problem].
func (t *Tree) Remove(path string) error {
	at, err := t.place(path, false)
	if err != nil {
		return t.explain(path, err)
	}
	defer at.dir.Close()
	old, err := t.replaceable(at, path)
	if err == nil && old == nil {
		err = fs.ErrNotExist
	}
	if err == nil && !at.dir.inPlace() {
		err = errChanged
	}
	if err == nil {
		err = at.dir.root.Remove(at.name)
	}
	return t.explain(path, err)
}

// spot is a name in an open folder.
type spot struct {
	dir  *Dir
	name string
}

func (s *spot) real() string { return filepath.Join(s.dir.Real, s.name) }

// place opens the folder of an existing or new file.
func (t *Tree) place(path string, makeFolders bool) (*spot, error) {
	r, rel, err := t.find(path)
	if err != nil {
		return nil, err
	}
	if rel == "." {
		return nil, toolapi.Problemf("%q is a folder that is configured; a file in it is needed.", path)
	}
	parent := filepath.Dir(rel)
	d, err := t.folder(r, parent, filepath.Dir(path))
	if makeFolders && errors.Is(err, fs.ErrNotExist) {
		if err = t.makeFolders(r, parent, filepath.Dir(path)); err == nil {
			d, err = t.folder(r, parent, filepath.Dir(path))
		}
	}
	if err != nil {
		return nil, explain(filepath.Dir(path), err)
	}
	return &spot{dir: d, name: filepath.Base(rel)}, nil
}

// makeFolders creates the missing folders of a path.
func (t *Tree) makeFolders(r *root, rel, path string) error {
	if rel == "." {
		return nil // the root itself, which is gone
	}
	err := t.makeFolders(r, filepath.Dir(rel), filepath.Dir(path))
	if err != nil {
		return err
	}
	above, err := t.folder(r, filepath.Dir(rel), filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	name := filepath.Base(rel)
	if _, err := above.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.guard.changeable(filepath.Join(above.Real, name), nil); err != nil {
		return err
	}
	if err := above.root.Mkdir(name, 0o777); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// replaceable returns the file that has a name, nil for none, if the rules allow changing
// it.
func (t *Tree) replaceable(at *spot, path string) (os.FileInfo, error) {
	old, err := at.dir.root.Lstat(at.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, t.guard.changeable(at.real(), nil)
	}
	if err != nil {
		return nil, err
	}
	if err := t.guard.changeable(at.real(), old); err != nil {
		return nil, err
	}
	if err := regular(path, old); err != nil {
		return nil, err
	}
	return old, t.alone(path, old)
}

// write writes a new file beside the place and renames it.
func (t *Tree) write(at *spot, old os.FileInfo, c Change) error {
	perm := os.FileMode(0o666)
	if old != nil {
		perm = old.Mode().Perm()
	}
	temp := ".toolgate-" + rand.Text() + ".tmp"
	f, err := at.dir.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	err = fill(f, old, c.Data)
	if err == nil {
		err = t.rename(at, temp, old, c.New)
	}
	if err != nil {
		if gone := at.dir.root.Remove(temp); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return fmt.Errorf("%w; what was written so far is left as %s: %w", err, temp, gone)
		}
	}
	return err
}

func fill(f *os.File, old os.FileInfo, data []byte) error {
	_, err := f.Write(data)
	if err == nil && old != nil {
		keepOwner(f, old)
		err = keepMode(f, old)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// keepMode gives a new file the permissions of another. If the sandbox forbids changing
// modes, the file lacks those that the umask removes.
func keepMode(f *os.File, old os.FileInfo) error {
	now, err := f.Stat()
	if err != nil || now.Mode().Perm() == old.Mode().Perm() {
		return err
	}
	if err := f.Chmod(old.Mode().Perm()); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// rename renames a file if the file that the rules were checked for is still there.
func (t *Tree) rename(at *spot, temp string, old os.FileInfo, fresh bool) error {
	now, err := t.replaceable(at, at.real())
	if err != nil {
		return err
	}
	if (now == nil) != (old == nil) || now != nil && !os.SameFile(now, old) || !at.dir.inPlace() {
		return errChanged
	}
	if fresh {
		// Creating a link fails if there is a file, and a rename does not. Some file
		// systems have no links.
		err := at.dir.root.Link(temp, at.name)
		if err == nil {
			return at.dir.root.Remove(temp)
		}
		if errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return at.dir.root.Rename(temp, at.name)
}
