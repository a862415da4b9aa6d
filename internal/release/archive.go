package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// file is one that goes into an archive, with slashes in its name. A name that ends in a
// slash is a folder.
type file struct {
	name  string
	data  []byte
	mode  int64 // 0644 if zero, 0755 for a folder
	owner int
}

func (f file) permissions() int64 {
	switch {
	case f.mode != 0:
		return f.mode
	case strings.HasSuffix(f.name, "/"):
		return 0o755
	}
	return 0o644
}

// writeTar writes files in the order of their names, all with one time.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range sorted(files) {
		h := &tar.Header{Name: f.name, Mode: f.permissions(), Size: int64(len(f.data)), ModTime: at, Uid: f.owner, Gid: f.owner, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeTarGz(w io.Writer, files []file, at time.Time) error {
	z := gzip.NewWriter(w)
	if err := writeTar(z, files, at); err != nil {
		return err
	}
	return z.Close()
}

func writeZip(w io.Writer, files []file, at time.Time) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(f.permissions()))
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// archiveFiles returns what is in the archive of a program.
func archiveFiles(p platform, binary []byte, x extras) []file {
	files := append([]file{
		{name: p.program(), data: binary, mode: 0o755},
		{name: "THIRD-PARTY-LICENSES.txt", data: x.notices},
	}, x.documents...)
	if p.os == "windows" {
		return files
	}
	for _, page := range x.manual {
		files = append(files, file{name: "man/" + page.name, data: page.data})
	}
	files = append(
		files,
		file{name: "completions/toolgate.bash", data: x.completions["bash"]},
		file{name: "completions/_toolgate", data: x.completions["zsh"]},
		file{name: "completions/toolgate.fish", data: x.completions["fish"]},
	)
	if p.os == "linux" {
		files = append(files, file{name: "toolgate.service", data: x.unit})
	}
	return files
}

// writeFile writes a file with a function, and removes it if that fails.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := cmp.Or(write(f), f.Close()); err != nil {
		_ = f.Close() // the first error counts
		_ = os.Remove(path)
		return err
	}
	return nil
}
