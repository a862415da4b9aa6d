package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var update = flag.Bool("update", false, "write the goldens anew")

// made are the files of a rehearsal for Linux and Windows on amd64.
var made = []string{
	"allowed_signers", "checksums.txt", "checksums.txt.sig", "homebrew/toolgate.rb", "toolgate_linux_amd64.cdx.json",
	"toolgate_linux_amd64.deb", "toolgate_linux_amd64.rpm", "toolgate_linux_amd64.tar.gz", "toolgate_oci.tar",
	"toolgate_windows_amd64.cdx.json", "toolgate_windows_amd64.zip", "winget/toolgate.toolgate.installer.yaml",
	"winget/toolgate.toolgate.locale.en-US.yaml", "winget/toolgate.toolgate.yaml",
}

// A rehearsal in a clone and one in a linked worktree make the same files, each with the
// same bytes when it is made a second time.
func TestStandIn(t *testing.T) {
	clone := standin(t)
	worktree := filepath.Join(t.TempDir(), "linked")
	must(t, clone, "git", "worktree", "add", "--quiet", "--detach", worktree)
	outs := map[string]string{}
	for name, root := range map[string]string{"clone": clone, "worktree": worktree} {
		out := filepath.Join(t.TempDir(), "release")
		outs[name] = out
		var said oneWriter
		if err := command(t.Context(), []string{"-dry", "-twice", "-root", root, "-out", out, "-platforms", "linux/amd64,windows/amd64"}, &said); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if said.mixed.Load() {
			t.Errorf("%s: two lines were written at the same time", name)
		}
		if text := said.text.String(); !strings.Contains(text, "toolgate 0.0.0-dry of ") || !strings.Contains(text, "this was a rehearsal") {
			t.Errorf("%s: the summary is\n%s", name, text)
		}
		sums, err := sumFiles(out)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for file := range sums {
			names = append(names, file)
		}
		if slices.Sort(names); !slices.Equal(names, made) {
			t.Errorf("%s: made %q", name, names)
		}
	}
	err := compare(outs["clone"], outs["worktree"])
	if err == nil || !strings.HasSuffix(err.Error(), ": allowed_signers, checksums.txt.sig") {
		t.Errorf("the clone and the worktree differ in more than their throw-away keys: %v", err)
	}

	out := outs["worktree"]
	must(t, out, "sha256sum", "--check", "--strict", checksums)
	if err := verify(t.Context(), filepath.Join(out, signers), out, checksums); err != nil {
		t.Error(err)
	}
	checkArchives(t, out)
	checkImage(t, out)
}

func checkArchives(t *testing.T, out string) {
	t.Helper()
	names := tarNames(t, filepath.Join(out, "toolgate_linux_amd64.tar.gz"))
	if want := []string{
		"CHANGELOG.md 644", "LICENSE 644", "README.md 644", "THIRD-PARTY-LICENSES.txt 644", "completions/_toolgate 644", "completions/toolgate.bash 644",
		"completions/toolgate.fish 644", "man/toolgate.1 644", "toolgate 755", "toolgate.service 644",
	}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q", names)
	}
	z, err := zip.OpenReader(filepath.Join(out, "toolgate_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	names = nil
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if want := []string{"CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY-LICENSES.txt", "toolgate.exe"}; !slices.Equal(names, want) {
		t.Errorf("the archive for Windows has %q", names)
	}
}

// tarNames returns the names and the modes in an archive.
func tarNames(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode))
	}
}

// checkImage reads the image as a registry would: every digest, size and media type.
func checkImage(t *testing.T, out string) {
	t.Helper()
	dir := t.TempDir()
	must(t, dir, "tar", "-xf", filepath.Join(out, imageFile))
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	outer, err := index.IndexManifest()
	if err != nil || len(outer.Manifests) != 1 {
		t.Fatalf("%+v, %v", outer, err)
	}
	inner, err := index.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := inner.IndexManifest()
	if err != nil || len(images.Manifests) != 1 || images.Manifests[0].Platform.String() != "linux/amd64" {
		t.Fatalf("the images are %+v, %v", images, err)
	}
	image, err := inner.Image(images.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/toolgate"}) || c.Labels["org.opencontainers.image.version"] != dryVersion {
		t.Errorf("the image is started as %+v", c)
	}
}

// oneWriter notices when it is written to from two goroutines at the same time.
type oneWriter struct {
	busy, mixed atomic.Bool
	text        bytes.Buffer
}

func (w *oneWriter) Write(p []byte) (int, error) {
	if !w.busy.CompareAndSwap(false, true) {
		w.mixed.Store(true)
		return len(p), nil
	}
	defer w.busy.Store(false)
	runtime.Gosched()
	return w.text.Write(p)
}

func TestSay(t *testing.T) {
	var w oneWriter
	r := &release{progress: &w}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				r.say("packing")
			}
		})
	}
	group.Wait()
	if n := strings.Count(w.text.String(), "packing\n"); w.mixed.Load() || n != 800 {
		t.Errorf("%d of 800 lines, mixed: %t", n, w.mixed.Load())
	}
}

func TestCompare(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, filepath.Join(a, "same"), "1")
	write(t, filepath.Join(b, "same"), "1")
	if err := compare(a, b); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(a, "other"), "1")
	write(t, filepath.Join(b, "other"), "2")
	write(t, filepath.Join(a, "first only"), "")
	write(t, filepath.Join(b, "second only"), "")
	if err := compare(a, b); err == nil || !strings.HasSuffix(err.Error(), ": first only, other, second only") {
		t.Error(err)
	}
}

// The list of what is inside names the program by its hash, and the modules with the
// hashes of go.sum.
func TestBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := open(host, self)
	if err != nil {
		t.Fatal(err)
	}
	p.info.Deps = slices.DeleteFunc(p.info.Deps, func(m *debug.Module) bool { return m.Sum == "" })
	var b bytes.Buffer
	if err := writeBOM(&b, source{version: "1.2.3", revision: "abc"}, p); err != nil {
		t.Fatal(err)
	}
	var bom struct {
		SpecVersion  string
		SerialNumber string
		Metadata     struct{ Component struct{ Purl string } }
		Components   []struct {
			Name   string
			Hashes []struct{ Content string }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Purl != "pkg:golang/"+module+"@v1.2.3" || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") || len(bom.Components) != len(p.info.Deps)+1 {
		t.Errorf("%+v", bom)
	}
	for _, c := range bom.Components {
		if c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s has the hashes %v", c.Name, c.Hashes)
		}
	}
	if _, err := component(&debug.Module{Path: "example.com/local", Version: "(devel)"}); err == nil || !strings.Contains(err.Error(), "published modules only") {
		t.Errorf("a module without a checksum: %v", err)
	}
}

// Each text stands once, and what has no licence is no part of a release.
func TestNotices(t *testing.T) {
	a, b, none := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(a, "LICENSE"), "The same\r\ntext.\n")
	write(t, filepath.Join(b, "LICENCE.md"), "The same\ntext.")
	write(t, filepath.Join(b, "NOTICE"), "More.")
	write(t, filepath.Join(b, "license.go"), "package b")
	text, err := joinNotices(map[string]string{"a v1": a, "b v1": b})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("=", 78)
	if want := "toolgate contains the following software under the following terms.\n\n" + line + "\na v1\nb v1\n\nThe same\ntext.\n\n" + line + "\nb v1\n\nMore.\n"; string(text) != want {
		t.Errorf("%s", text)
	}
	if _, err := joinNotices(map[string]string{"c v1": none}); err == nil || !strings.Contains(err.Error(), "c v1 has no licence") {
		t.Error(err)
	}
}

// The manifests name the archives of the platforms that there are.
func TestManifests(t *testing.T) {
	out := t.TempDir()
	sums := map[string]string{}
	for i, p := range platforms[:5] {
		sums[p.archive()] = strings.Repeat(string(rune('a'+i)), 64)
	}
	if err := writeManifests(out, source{version: "1.2.3"}, sums); err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		got, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "manifests", m.template)
		if *update {
			write(t, golden, string(got))
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s has (-update rewrites it): %v\n%s", m.file, golden, err, got)
		}
	}
}
