//go:build e2e && unix

package e2e

import (
	"bytes"
	"image"
	_ "image/png"
	"os"
	"path/filepath"
	"testing"
)

const (
	// consolePicture is the picture of the README, and maxPicture its largest size.
	consolePicture = "docs/console.png"
	maxPicture     = 200 << 10
)

// TestConsolePicture takes the picture of the console for the README: one call with its
// phases. With -update it becomes docs/console.png; else it is in out/test/console, and
// the one of the README has to be of the same size.
func TestConsolePicture(t *testing.T) {
	t.Parallel()
	need(t, browser())
	d := newDesk()
	w := consoleGateway(t, d, nil)
	ids := w.busy(t, d)
	file := filepath.Join(lab.root, "out", "test", "console", "picture.png")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	w.browse(t, "console_picture.mjs", object{"path": "/calls/" + ids.done, "file": file})
	taken, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(lab.root, filepath.FromSlash(consolePicture))
	if *update {
		if err := os.WriteFile(docs, taken, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(docs)
	if err != nil {
		t.Fatalf("%v; run make console-picture", err)
	}
	want, have := pictureSize(t, taken), pictureSize(t, kept)
	if len(kept) > maxPicture || have != want {
		t.Errorf("%s has %v and %d bytes, want %v and at most %d; run make console-picture", consolePicture, have, len(kept), want, maxPicture)
	}
}

func pictureSize(t *testing.T, data []byte) image.Point {
	t.Helper()
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return image.Pt(c.Width, c.Height)
}
