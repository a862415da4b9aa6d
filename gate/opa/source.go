package opa

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of what is read as one policy.
const (
	maxFiles  = 4096     // files and folders
	maxDepth  = 32       // nested folders
	maxBundle = 20 << 20 // bytes of a compressed bundle
	maxSource = 64 << 20 // bytes of all files together
)

const (
	manifestFile = ".manifest"
	testSuffix   = "_test.rego"
)

var errTooMuch = fmt.Errorf("a policy may have at most %d files and %d MiB", maxFiles, maxSource>>20)

// sourceFile is one file of a policy.
type sourceFile struct {
	name string // slash-separated, relative to the root of the policy
	show string // how a person finds it
	data []byte
}

// source is all that a policy is made of, as it was at one moment.
type source struct {
	files []sourceFile // by name
	dirs  []string     // the folders of a directory, to watch
	hash  string       // of the names and contents, hex
}

// newSource orders files and hashes them.
func newSource(files []sourceFile, dirs []string) *source {
	slices.SortFunc(files, func(a, b sourceFile) int { return cmp.Compare(a.name, b.name) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d:%s%d:", len(f.name), f.name, len(f.data))
		h.Write(f.data)
	}
	return &source{files: files, dirs: dirs, hash: hex.EncodeToString(h.Sum(nil))}
}

// readPath reads a directory, or a bundle on disk.
func readPath(root string) (*source, error) {
	info, err := os.Stat(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read policy: there is no folder or bundle %s; name a folder with .rego files, or a bundle", root)
	}
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	if info.IsDir() {
		return readDir(root)
	}
	raw, err := readRegular(root, maxBundle)
	if err != nil {
		return nil, fmt.Errorf("read policy bundle: %w", err)
	}
	return readBundle(raw, root, nil)
}

// isPolicyFile tells whether a file of that name matters. Data under another
// name would be a deny list that denies nothing, so it is refused.
func isPolicyFile(name string) (bool, error) {
	base := path.Base(name)
	switch ext := path.Ext(base); {
	case base == manifestFile:
		return name == manifestFile, nil
	case strings.HasPrefix(base, "."):
		return false, nil
	case base == "data.json", base == "data.yaml", base == "data.yml", ext == ".rego":
		return true, nil
	case base == "patch.json":
		return false, fmt.Errorf("%s: delta bundles are not supported; build a whole one", name)
	case ext == ".json", ext == ".yaml", ext == ".yml":
		return false, fmt.Errorf("%s: is not loaded under this name; name it %s, in a folder named as its key in data", name, "data"+ext)
	}
	return false, nil
}

// dirReader collects the files of a directory. Entries that begin with a dot
// are skipped; symbolic links to files are followed, those to folders are not.
type dirReader struct {
	root   string
	files  []sourceFile
	dirs   []string
	seen   int
	size   int
	faults []error
}

func readDir(root string) (*source, error) {
	r := &dirReader{root: root}
	if err := r.walk("", 0); err != nil {
		return nil, err
	}
	if err := errors.Join(r.faults...); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return newSource(r.files, r.dirs), nil
}

func (r *dirReader) walk(dir string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("read policy: %s is more than %d folders deep", filepath.Join(r.root, dir), maxDepth)
	}
	at := filepath.Join(r.root, filepath.FromSlash(dir))
	entries, err := os.ReadDir(at)
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	r.dirs = append(r.dirs, at)
	for _, e := range entries {
		if r.seen++; r.seen > maxFiles {
			return fmt.Errorf("read policy %s: %w", r.root, errTooMuch)
		}
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && !strings.HasPrefix(e.Name(), "."):
			if err := r.walk(name, depth+1); err != nil {
				return err
			}
		case !e.IsDir():
			if err := r.add(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *dirReader) add(name string) error {
	full := filepath.Join(r.root, filepath.FromSlash(name))
	wanted, err := isPolicyFile(name)
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("%s: %w", r.root, err))
	}
	if !wanted {
		return nil
	}
	data, err := readRegular(full, maxSource-r.size)
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	r.size += len(data)
	r.files = append(r.files, sourceFile{name: name, show: full, data: data})
	return nil
}

// readRegular reads a regular file of at most limit bytes. A pipe or a device
// would not end.
func readRegular(name string, limit int) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s: %w", name, errTooMuch)
	}
	return data, err
}

// readBundle reads a bundle: a gzipped tar with the files of a policy. from is
// where it is from, for a person. With a signer it is one that they have signed.
func readBundle(raw []byte, from string, by *signer) (*source, error) {
	files, err := untar(raw, by)
	if err != nil {
		return nil, fmt.Errorf("read policy bundle %s: %w", from, err)
	}
	return newSource(files, nil), nil
}

func untar(raw []byte, by *signer) ([]sourceFile, error) {
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("not a gzipped tar: %w", err)
	}
	defer z.Close()
	var files []sourceFile
	var faults []error
	var signature []byte
	seen, size := map[string]bool{}, 0
	limited := &io.LimitedReader{R: z, N: maxSource + 1}
	t := tar.NewReader(limited)
	for count := 0; ; count++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, bundleError(limited, err)
		}
		name := bundleName(filepath.ToSlash(h.Name))
		switch {
		case count >= maxFiles:
			return nil, errTooMuch
		case h.Typeflag != tar.TypeReg:
			continue
		case !fs.ValidPath(name):
			return nil, fmt.Errorf("%q is not the name of a file in a bundle", h.Name)
		case seen[name]:
			return nil, fmt.Errorf("%s is in it twice", name)
		}
		seen[name] = true
		if name == signatureFile && by != nil {
			if signature, err = io.ReadAll(io.LimitReader(t, maxSignature)); err != nil {
				return nil, bundleError(limited, err)
			}
		}
		wanted, err := isPolicyFile(name)
		if err != nil {
			faults = append(faults, err)
		}
		if !wanted {
			continue
		}
		if h.Size > int64(maxSource-size) {
			return nil, errTooMuch
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return nil, bundleError(limited, err)
		}
		size += len(data)
		files = append(files, sourceFile{name: name, show: name, data: data})
	}
	// The checksum stands behind the last file: read up to it.
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return nil, bundleError(limited, err)
	}
	if len(files) == 0 && len(faults) == 0 {
		return nil, errors.New("it has no file of a policy")
	}
	if err := by.verify(signature, files, seen); err != nil {
		return nil, err
	}
	return files, errors.Join(faults...)
}

// bundleError says why a bundle cannot be read.
func bundleError(limited *io.LimitedReader, err error) error {
	if limited.N <= 0 {
		return errTooMuch
	}
	return fmt.Errorf("damaged or cut off: %w", err)
}
