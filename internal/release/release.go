package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// release is one on its way into the folder out.
type release struct {
	source    source
	out       string
	platforms []platform
	signer    *signer
	began     time.Time

	speaking sync.Mutex // files are packed at the same time
	progress io.Writer
}

// atOnce is how many files are packed at a time; each takes some hundred megabytes.
const atOnce = 2

// make makes everything.
func (r *release) make(ctx context.Context) error {
	r.began = time.Now()
	work, err := os.MkdirTemp("", "toolgate-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	programs, err := r.build(ctx, work)
	if err != nil {
		return err
	}
	runnable := filepath.Join(work, host.name(), host.program())
	if !slices.Contains(r.platforms, host) {
		if err := build(ctx, r.source, host, runnable); err != nil {
			return err
		}
	}
	x, err := collect(ctx, r.source, runnable, work, programs)
	if err != nil {
		return err
	}
	if err := r.pack(ctx, work, programs, x); err != nil {
		return err
	}
	return r.finish(ctx)
}

// build builds the program for each platform, one after the other, because the go
// command uses all processors.
func (r *release) build(ctx context.Context, work string) ([]program, error) {
	var all []program
	for _, p := range r.platforms {
		r.say("building %s", p)
		path := filepath.Join(work, p.name(), p.program())
		if err := build(ctx, r.source, p, path); err != nil {
			return nil, err
		}
		built, err := open(p, path)
		if err != nil {
			return nil, err
		}
		all = append(all, built)
	}
	return all, nil
}

// pack writes every file that holds programs.
func (r *release) pack(ctx context.Context, work string, programs []program, x extras) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	do := func(name string, write func(io.Writer) error) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.say("packing %s", name)
			if err := writeFile(filepath.Join(r.out, name), write); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	var contained []program
	for _, p := range programs {
		name := p.platform.name()
		do(p.platform.archive(), func(w io.Writer) error {
			binary, err := os.ReadFile(p.path)
			if err != nil {
				return err
			}
			files := archiveFiles(p.platform, binary, x)
			if p.platform.os == "windows" {
				return writeZip(w, files, r.source.time)
			}
			return writeTarGz(w, files, r.source.time)
		})
		do(name+".cdx.json", func(w io.Writer) error { return writeBOM(w, r.source, p) })
		if p.platform.os != "linux" {
			continue
		}
		contained = append(contained, p)
		for _, format := range formats {
			do(name+"."+format, func(w io.Writer) error {
				dir, err := os.MkdirTemp(work, format+"-")
				if err != nil {
					return err
				}
				return writePackage(w, format, r.source, p, x, dir)
			})
		}
	}
	if len(contained) > 0 {
		do(imageFile, func(w io.Writer) error {
			return writeImage(w, r.source, contained, x, filepath.Join(work, "oci"))
		})
	}
	return group.Wait()
}

// finish writes what depends on the bytes of the other files.
func (r *release) finish(ctx context.Context) error {
	sums, err := sumFiles(r.out)
	if err != nil {
		return err
	}
	if err := writeManifests(r.out, r.source, sums); err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if filepath.Dir(name) == "." {
			fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
		}
	}
	if err := os.WriteFile(filepath.Join(r.out, checksums), []byte(b.String()), 0o644); err != nil {
		return err
	}
	return r.signer.sign(ctx, r.out, checksums)
}

// sumFiles returns the SHA-256 of the files in a folder, by name.
func sumFiles(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == marker {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sums[filepath.ToSlash(name)] = hex.EncodeToString(h.Sum(nil))
		return err
	})
	return sums, err
}

// reproduce makes a release a second time, from a copy of the sources in another folder,
// and compares every file.
func reproduce(ctx context.Context, first *release) error {
	dir, err := os.MkdirTemp("", "toolgate-again-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	first.say("building a second time, in %s", dir)
	src, err := copySource(ctx, first.source, filepath.Join(dir, "source"))
	if err != nil {
		return err
	}
	out := filepath.Join(dir, "release")
	if err := emptied(out); err != nil {
		return err
	}
	second := &release{source: src, out: out, platforms: first.platforms, signer: first.signer, progress: io.Discard}
	if err := second.make(ctx); err != nil {
		return err
	}
	return compare(first.out, out)
}

// compare reports which files of two folders differ.
func compare(a, b string) error {
	one, err := sumFiles(a)
	if err != nil {
		return err
	}
	two, err := sumFiles(b)
	if err != nil {
		return err
	}
	differ := map[string]bool{}
	for name, sum := range one {
		if two[name] != sum {
			differ[name] = true
		}
	}
	for name, sum := range two {
		if one[name] != sum {
			differ[name] = true
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("a second build of the same sources gives other bytes: %s", strings.Join(slices.Sorted(maps.Keys(differ)), ", "))
	}
	return nil
}

// say tells how far the release is.
func (r *release) say(format string, args ...any) {
	r.speaking.Lock()
	defer r.speaking.Unlock()
	fmt.Fprintf(r.progress, "%4.0f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// summary lists what was made and says what comes next.
func (r *release) summary(w io.Writer, dry bool) error {
	fmt.Fprintf(w, "\ntoolgate %s of %s, commit %.12s, in %s\n", r.source.version, r.source.time.Format("2006-01-02"), r.source.revision, r.out)
	sums, err := sumFiles(r.out)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		info, err := os.Stat(filepath.Join(r.out, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "  %s\t%d KiB\n", name, (info.Size()+1023)/1024)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	next := "docs/releasing.md says how to publish it"
	if dry {
		next = "this was a rehearsal: its key is gone, and nothing of it is for anybody else"
	}
	_, err = fmt.Fprintln(w, next)
	return err
}
