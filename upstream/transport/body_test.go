package transport

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// allocated returns what do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Memory is not allocated for an announced size, except for small ones.
func TestReadBodyAnnounced(t *testing.T) {
	const limit = 32 << 20
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		body  io.Reader
		known int64
		want  error
	}{
		{"one byte", strings.NewReader("x"), limit, io.ErrUnexpectedEOF},
		{"nothing", strings.NewReader(""), limit, io.ErrUnexpectedEOF},
		{"one byte and an error", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), limit, broken},
		{"a small one that breaks", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 10, broken},
		{"a small one that ends early", strings.NewReader("x"), 10, io.ErrUnexpectedEOF},
		{"not announced, and it breaks", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, io.ErrUnexpectedEOF},
		{"beyond the limit", strings.NewReader("x"), limit + 1, ErrTooLarge},
	} {
		var err error
		n := allocated(func() { _, err = readBody(nil, tt.body, tt.known, limit) })
		if !errors.Is(err, tt.want) || n > 2*blockSize {
			t.Errorf("%s: %v with %d bytes of memory, want %v", tt.name, err, n, tt.want)
		}
	}
}

func TestReadBody(t *testing.T) {
	const limit = 3 << 20
	body := bytes.Repeat([]byte("0123456789abcdef"), limit/16)
	sizes := []int{0, 1, 4095, 4096, 4097, 4096 + blockSize, 4097 + blockSize, announcedMost, announcedMost + 1, limit}
	for _, size := range sizes {
		for _, known := range []int64{-1, int64(size)} {
			for _, wrap := range []func(io.Reader) io.Reader{iotest.HalfReader, iotest.DataErrReader} {
				got, err := readBody(nil, wrap(bytes.NewReader(body[:size])), known, limit)
				if err != nil || !bytes.Equal(got, body[:size]) || cap(got) != size {
					t.Errorf("%d bytes, announced as %d: %d in %d, %v", size, known, len(got), cap(got), err)
				}
			}
		}
	}
	if _, err := readBody(nil, io.MultiReader(bytes.NewReader(body), strings.NewReader("x")), -1, limit); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many = %v", err)
	}
	if _, err := readBody(nil, strings.NewReader("xx"), -1, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("two bytes with a limit of one = %v", err)
	}
	src := bytes.NewReader(nil)
	for _, size := range []int{100, 100_000, announcedMost} {
		if n := testing.AllocsPerRun(10, func() {
			src.Reset(body[:size])
			if _, err := readBody(nil, src, int64(size), limit); err != nil {
				t.Error(err)
			}
		}); n != 1 {
			t.Errorf("%d bytes took %v allocations, want 1", size, n)
		}
	}
}

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://u:p@h.example/x?token=t#f": "https://h.example/x#f",
		"http://[::1":                       "(unreadable)",
		"h":                                 "h",
	} {
		if got := redactURL(raw); got != want {
			t.Errorf("redactURL(%q) = %q, want %q", raw, got, want)
		}
	}
}
