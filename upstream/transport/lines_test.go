package transport

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readResult is all that a lineReader made of a stream.
type readResult struct {
	Lines   []string
	Noise   []string // heads
	TooLong []string // heads
	Err     string
}

// readLines reads src to its end, with the given buffer sizes if they are not
// zero.
func readLines(t *testing.T, src io.Reader, maxLine, rest, chunk int) readResult {
	t.Helper()
	var got readResult
	r := newLineReader(src, maxLine, func(head []byte) { got.Noise = append(got.Noise, string(head)) })
	r.onTooLong = func(head []byte) { got.TooLong = append(got.TooLong, string(head)) }
	if rest != 0 {
		r.scan.rest, r.scan.chunk = rest, chunk
	}
	for {
		line, err := r.next()
		if err != nil {
			got.Err = err.Error()
			if _, again := r.next(); !errors.Is(again, err) {
				t.Errorf("after %v next returned %v", err, again)
			}
			break
		}
		if len(line) > maxLine {
			t.Errorf("line of %d bytes, limit %d", len(line), maxLine)
		}
		if cap(line)-len(line) > len(line)/4+32 {
			t.Errorf("line of %d bytes holds %d", len(line), cap(line))
		}
		got.Lines = append(got.Lines, string(line))
	}
	if n := r.noise.Load(); n != uint64(len(got.Noise)) {
		t.Errorf("counted %d lines of noise, was told of %d", n, len(got.Noise))
	}
	if n := r.tooLong.Load(); n != uint64(len(got.TooLong)) {
		t.Errorf("counted %d long lines, was told of %d", n, len(got.TooLong))
	}
	return got
}

func TestLineReader(t *testing.T) {
	const maxLine = 1 << 20
	full := "{" + strings.Repeat("x", maxLine-1)
	tests := []struct {
		name  string
		input string
		want  readResult
	}{
		{"nothing", "", readResult{}},
		{"two lines", "{1}\n[2]\n", readResult{Lines: []string{"{1}", "[2]"}}},
		{"CR LF", "{1}\r\n{2}\r\r\n", readResult{Lines: []string{"{1}", "{2}\r"}}},
		{"a lone CR is no end", "{1}\r{2}\n", readResult{Lines: []string{"{1}\r{2}"}}},
		{"empty lines", "\n\r\n  \t\n{1}\n\n", readResult{Lines: []string{"{1}"}}},
		{"white space is kept", " \t{1} \n", readResult{Lines: []string{" \t{1} "}}},
		{
			"noise", "listening on stdio\n{1}\n\x1b[31mReceived SIGTERM\n\"x\"\n",
			readResult{Lines: []string{"{1}"}, Noise: []string{"listening on stdio", "\x1b[31mReceived SIGTERM", "\"x\""}},
		},
		{"half line", "{1}\n{\"half", readResult{Lines: []string{"{1}"}, Noise: []string{"{\"half"}}},
		{"half line of white space", "{1}\n  ", readResult{Lines: []string{"{1}"}}},
		{"binary", "\x00\xff\x00\n{1}\n", readResult{Lines: []string{"{1}"}, Noise: []string{"\x00\xff\x00"}}},
		{"exactly the limit", full + "\n", readResult{Lines: []string{full}}},
		{"exactly the limit and CR LF", full + "\r\n{1}\n", readResult{Lines: []string{full, "{1}"}}},
		{"one too many", full + "x\n{1}\n", readResult{Lines: []string{"{1}"}, TooLong: []string{full[:200]}}},
		{"one too many and CR LF", full + "x\r\n{1}\n", readResult{Lines: []string{"{1}"}, TooLong: []string{full[:200]}}},
		{"far too long", strings.Repeat(full, 20) + "\n{1}\n", readResult{Lines: []string{"{1}"}, TooLong: []string{full[:200]}}},
		{"long and no end", full + full, readResult{TooLong: []string{full[:200]}}},
		{"byte order marks", "\xef\xbb\xbf{1}\n\xef\xbb\xbfready\n\xef\xbb\xbf\n{2}\n", readResult{Lines: []string{"{1}", "{2}"}, Noise: []string{"\xef\xbb\xbfready"}}},
		{"long noise", "x" + strings.Repeat(full, 3) + "\n{1}\n", readResult{Lines: []string{"{1}"}, Noise: []string{"x" + full[:199]}}},
		{"long noise and no end", "{1}\nx" + strings.Repeat(full, 3), readResult{Lines: []string{"{1}"}, Noise: []string{"x" + full[:199]}}},
		{"long white space", strings.Repeat(" ", 10_000) + "\n{1}\n", readResult{Lines: []string{"{1}"}}},
		{"white space, then noise", strings.Repeat(" ", 10_000) + "x\n{1}\n", readResult{
			Lines: []string{"{1}"}, Noise: []string{strings.Repeat(" ", 200)},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Err = io.EOF.Error()
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"plain":           func(r io.Reader) io.Reader { return r },
				"error with data": iotest.DataErrReader,
				"half":            iotest.HalfReader,
			} {
				got := readLines(t, wrap(strings.NewReader(tt.input)), maxLine, 0, 0)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%.2000s", name, diff)
				}
			}
		})
	}
}

func TestLineReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	got := readLines(t, io.MultiReader(strings.NewReader("{1}\n{2"), iotest.ErrReader(broken)), 100, 0, 0)
	want := readResult{Lines: []string{"{1}"}, Noise: []string{"{2"}, Err: "broken"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken stream (-want +got):\n%s", diff)
	}

	got = readLines(t, emptyReader{}, 100, 0, 0)
	if diff := cmp.Diff(readResult{Err: io.ErrNoProgress.Error()}, got); diff != "" {
		t.Errorf("a reader that gives nothing (-want +got):\n%s", diff)
	}

	got = readLines(t, strings.NewReader("{}\n"), 0, 0, 0)
	if diff := cmp.Diff(readResult{TooLong: []string{"{}"}, Err: "EOF"}, got); diff != "" {
		t.Errorf("without a limit (-want +got):\n%s", diff)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// TestLineReaderKeeps checks that a returned line stays as it was.
func TestLineReaderKeeps(t *testing.T) {
	var input bytes.Buffer
	var want []string
	for i := range 300 {
		line := "{" + strings.Repeat(string(rune('a'+i%26)), i*i)
		want = append(want, line)
		input.WriteString(line + "\n")
	}
	r := newLineReader(&input, 1<<20, nil)
	var lines [][]byte
	for {
		line, err := r.next()
		if err != nil {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i := range want {
		if string(lines[i]) != want[i] {
			t.Fatalf("line %d was changed by those after it", i)
		}
	}
}

// TestLineReaderHoldsLittle reads a line of 64 MB that is too long, and one of
// noise, and checks what they cost.
func TestLineReaderHoldsLittle(t *testing.T) {
	const maxLine = 1 << 20
	for _, first := range []string{"{", "x"} {
		r := newLineReader(io.MultiReader(
			strings.NewReader(first), io.LimitReader(&loopReader{data: make([]byte, 1<<20)}, 64<<20), strings.NewReader("\n{1}\n"),
		), maxLine, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		line, err := r.next()
		runtime.ReadMemStats(&after)
		if string(line) != "{1}" || err != nil {
			t.Errorf("next = %.20q, %v", line, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 3*maxLine {
			t.Errorf("a long line that begins with %s took %d bytes", first, n)
		}
	}
}

// referenceLines is the plain reading of what a lineReader promises.
func referenceLines(input string, maxLine int) readResult {
	got := readResult{Err: io.EOF.Error()}
	head := func(line string) string { return line[:min(len(line), skipHeadBytes)] }
	for len(input) > 0 {
		line, rest, whole := strings.Cut(input, "\n")
		input = rest
		if whole {
			line = strings.TrimSuffix(line, "\r")
		}
		text := strings.TrimLeft(strings.TrimPrefix(line, "\xef\xbb\xbf"), " \t\r")
		if strings.HasPrefix("\xef\xbb\xbf", line) {
			text = ""
		}
		message := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
		size := len(line)
		if !whole && strings.HasSuffix(line, "\r") {
			size-- // it could have been an end
		}
		switch {
		case size > maxLine && (message || text == ""):
			got.TooLong = append(got.TooLong, head(line))
		case text == "":
		case size > maxLine, !message, !whole:
			got.Noise = append(got.Noise, head(line))
		default:
			got.Lines = append(got.Lines, strings.TrimPrefix(line, "\xef\xbb\xbf"))
		}
	}
	return got
}

// FuzzLineReader compares with referenceLines, with buffers so small that every
// line crosses them and reads of every size.
func FuzzLineReader(f *testing.F) {
	f.Add("\xef\xbb\xbf{1}\n\xef\xbb\xbf\n", uint16(20), uint8(1), uint8(3))
	f.Add("{1}\n[2]\r\n\nnoise\n{half", uint16(20), uint8(1), uint8(3))
	f.Add("{"+strings.Repeat("x", 100)+"\r\n{1}\n", uint16(101), uint8(4), uint8(16))
	f.Add(strings.Repeat(" ", 50)+"\n"+strings.Repeat("\r", 50)+"\n{}\n", uint16(10), uint8(0), uint8(7))
	f.Fuzz(func(t *testing.T, input string, maxLine uint16, step, chunk uint8) {
		want := referenceLines(input, int(maxLine))
		got := readLines(t, &stepReader{rest: input, step: int(step) + 1}, int(maxLine), int(chunk)/2+1, int(chunk)+1)
		// What a head is cut to depends on the reads where a line is long or its
		// beginning undecided, so only its beginning is compared there.
		trim := func(heads []string) (out []string) {
			for _, head := range heads {
				out = append(out, head[:min(len(head), 1)])
			}
			return out
		}
		if len(got.Noise)+len(got.TooLong) != len(want.Noise)+len(want.TooLong) {
			t.Errorf("skipped %q and %q, want %q and %q", got.Noise, got.TooLong, want.Noise, want.TooLong)
		}
		if int(maxLine) > len(input) {
			if diff := cmp.Diff([][]string{trim(want.Noise), trim(want.TooLong)}, [][]string{trim(got.Noise), trim(got.TooLong)}); diff != "" {
				t.Errorf("skipped lines (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff(want.Lines, got.Lines); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// stepReader gives at most step bytes at a time.
type stepReader struct {
	rest string
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(len(r.rest), r.step)])
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkLineReader(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 100}, {"10KB", 10_000}, {"1MB", 1 << 20}, {"20MB", 20 << 20}} {
		line := []byte(`{"x":"` + strings.Repeat("y", size.bytes-8) + "\"}\n")
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			r := newLineReader(&loopReader{data: line}, 32<<20, nil)
			for b.Loop() {
				if got, err := r.next(); err != nil || len(got) != len(line)-1 {
					b.Fatalf("next = %d bytes, %v", len(got), err)
				}
			}
		})
	}
}

// loopReader gives data again and again.
type loopReader struct {
	data []byte
	at   int
}

func (r *loopReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.data[r.at:])
		n += c
		r.at = (r.at + c) % len(r.data)
	}
	return n, nil
}
