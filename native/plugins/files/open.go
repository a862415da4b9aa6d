package files

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolgate/toolgate/native/toolapi"
)

// File is an open regular file for reading.
type File struct {
	*os.File

	Info os.FileInfo
	Real string // its real path
}

// Open opens a file for reading. Every error is a [toolapi.Problem].
func (t *Tree) Open(path string) (*File, error) {
	r, rel, err := t.find(path)
	if err != nil {
		return nil, err
	}
	// Devices are refused before they are opened where possible, because opening some
	// of them has effects.
	if info, err := r.dir.Stat(rel); err != nil {
		return nil, t.explain(path, err)
	} else if err := regular(path, info); err != nil {
		return nil, err
	}
	f, real, err := openReal(r, rel, false)
	if err != nil {
		return nil, t.explain(path, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = t.admit(path, f, real, info)
	}
	if err != nil {
		f.Close()
		return nil, t.explain(path, err)
	}
	return &File{File: f, Info: info, Real: real}, nil
}

// OpenReal opens a file by a real path that this tree has returned, or by a path below
// it, under the same rules.
func (t *Tree) OpenReal(real string) (*File, error) {
	for i := range t.roots {
		r := &t.roots[i]
		if rel, ok := beneath(real, r.real); ok && (r.only == "" || rel == r.only) {
			return t.Open(filepath.Join(r.path, rel))
		}
	}
	return nil, toolapi.Problemf("%q is outside of what this tool reaches. %s", real, t.allowed())
}

// admit checks an open file against the rules.
func (t *Tree) admit(path string, f *os.File, real string, info os.FileInfo) error {
	if err := regular(path, info); err != nil {
		return err
	}
	if err := t.alone(path, info); err != nil {
		return err
	}
	if err := onDisk(f); err != nil {
		return toolapi.Problemf("%q is not a stored file: %v.", path, err)
	}
	return t.guard.readable(real, info)
}

// alone refuses a file with several names.
func (t *Tree) alone(path string, info os.FileInfo) error {
	if n := links(info); n > 1 && !t.hardLinks {
		return toolapi.Problemf("%q has %d names (hard links), of which some may be elsewhere; such files are not touched unless hard_links is configured.", path, n)
	}
	return nil
}

func regular(path string, info os.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return toolapi.Problemf("%q is a folder; a regular file is needed.", path)
	}
	return toolapi.Problemf("%q is %s; only regular files are allowed.", path, kind(info.Mode()))
}

// kind names the type of a mode, for people.
func kind(mode os.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case os.ModeDir:
		return "folder"
	case os.ModeSymlink:
		return "link"
	case os.ModeNamedPipe:
		return "pipe"
	case os.ModeSocket:
		return "socket"
	default:
		return "device"
	}
}

// Dir is an open folder.
type Dir struct {
	*os.File

	root *os.Root
	Real string
}

// Close closes the folder.
func (d *Dir) Close() {
	d.File.Close()
	d.root.Close()
}

// inPlace tells whether the folder is still where the rules were checked for it.
func (d *Dir) inPlace() bool {
	info, err := d.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(d.Real)
	return err == nil && os.SameFile(info, there)
}

// OpenDir opens a folder. Every error is a [toolapi.Problem].
func (t *Tree) OpenDir(path string) (*Dir, error) {
	r, rel, err := t.find(path)
	if err != nil {
		return nil, err
	}
	d, err := t.folder(r, rel, path)
	if err != nil {
		return nil, t.explain(path, err)
	}
	return d, nil
}

// folder opens a folder of a root.
func (t *Tree) folder(r *root, rel, path string) (*Dir, error) {
	info, err := r.dir.Stat(rel)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, toolapi.Problemf("%q is a %s; a folder is needed.", path, kind(info.Mode()))
	}
	f, real, err := openReal(r, rel, true)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		if err = t.guard.readable(real, info); err == nil {
			err = onDisk(f)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	inner, err := r.dir.OpenRoot(rel)
	if err != nil {
		f.Close()
		return nil, err
	}
	if again, err := inner.Stat("."); err != nil || !os.SameFile(again, info) {
		f.Close()
		inner.Close()
		return nil, fmt.Errorf("folder %s: %w", path, errChanged)
	}
	return &Dir{File: f, root: inner, Real: real}, nil
}

// explain converts an error for the caller. It adds the allowed paths where the path
// was the problem.
func (t *Tree) explain(path string, err error) error {
	problem := explain(path, err)
	if escapes(err) {
		return toolapi.Problemf("%s %s", problem, t.allowed())
	}
	return problem
}

// Path tells whether a path is a readable file or folder, and returns its real path.
func (t *Tree) Path(path string) (real string, folder bool, err error) {
	r, rel, err := t.find(path)
	if err != nil {
		return "", false, err
	}
	info, err := r.dir.Stat(rel)
	if err != nil {
		return "", false, t.explain(path, err)
	}
	if info.IsDir() {
		d, err := t.OpenDir(path)
		if err != nil {
			return "", false, err
		}
		defer d.Close()
		return d.Real, true, nil
	}
	f, err := t.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	return f.Real, false, nil
}
