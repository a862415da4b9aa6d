//go:build !linux

package files

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/native/toolapi"
)

// openReal opens a file or folder of a root for reading, without waiting for a writer,
// and returns its real path. This system does not report that path for open files. So
// no link below a root is followed, and the given path is the real one.
func openReal(r *root, rel string, folder bool) (*os.File, string, error) {
	dir, err := r.dir.OpenRoot(".")
	if err != nil {
		return nil, "", err
	}
	defer func() { dir.Close() }()
	parts := strings.Split(filepath.Clean(rel), string(filepath.Separator))
	for _, part := range parts[:len(parts)-1] {
		next, err := step(dir, part)
		if err != nil {
			return nil, "", err
		}
		dir.Close()
		dir = next
	}
	last := parts[len(parts)-1]
	before, err := dir.Lstat(last)
	if err != nil {
		return nil, "", err
	}
	if !before.Mode().IsRegular() && !before.IsDir() {
		return nil, "", toolapi.Problemf("%q is a %s; links are not followed on this system.", rel, kind(before.Mode()))
	}
	f, err := dir.OpenFile(last, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, "", err
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, before) || info.IsDir() != folder {
		f.Close()
		return nil, "", errChanged
	}
	return f, filepath.Join(r.real, rel), nil
}

// step opens a folder in another one; links are refused.
func step(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, toolapi.Problemf("%q on the way is a %s; links are not followed on this system.", name, kind(before.Mode()))
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	info, err := next.Stat(".")
	if err != nil || !os.SameFile(info, before) {
		next.Close()
		return nil, errChanged
	}
	return next, nil
}

// onDisk accepts everything: these systems mount no such file systems among files.
func onDisk(*os.File) error { return nil }
