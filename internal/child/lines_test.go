package child

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLineRing(t *testing.T) {
	long := strings.Repeat("x", ringLineBytes)
	tests := []struct {
		name         string
		lines, bytes int
		writes       []string
		want         []string
		last         string
	}{
		{"nothing", 3, 100, nil, nil, ""},
		{"lines and a half one", 3, 100, []string{"a\nb", "c\nd"}, []string{"a", "bc", "d"}, "d"},
		{"CR LF", 3, 100, []string{"a\r\nb\r\n"}, []string{"a", "b"}, "b"},
		{"keeps the last ones", 3, 100, []string{"1\n2\n3\n4\n5\n"}, []string{"3", "4", "5"}, "5"},
		{"the half one counts", 3, 100, []string{"1\n2\n3\n4"}, []string{"2", "3", "4"}, "4"},
		{"keeps the last bytes", 10, 8, []string{"aaa\nbbb\nccc\n"}, []string{"bbb", "ccc"}, "ccc"},
		{"grows again after a large line", 10, 8, []string{"aa\nbbbbbbbb\nc\nd\n"}, []string{"c", "d"}, "d"},
		{"last skips empty ones", 5, 100, []string{"why\n\n  \n"}, []string{"why", "", "  "}, "why"},
		{"a long line is cut", 5, 0, []string{long, "yyy", "\nz\n"}, []string{long + "…", "z"}, "z"},
		{"a line above the bytes is cut", 5, 4, []string{"abcdef\n"}, []string{"abcd…"}, "abcd…"},
		{"colours", 5, 100, []string{"\x1b[1;31merror\x1b[0m: no\n"}, []string{"error: no"}, "error: no"},
		{"title, bell, backspace", 5, 100, []string{"\x1b]0;pwned\x07a\bb\x9bc\n"}, []string{"]0;pwnedabc"}, "]0;pwnedabc"},
		{"an unfinished sequence", 5, 100, []string{"a\x1b[31\nb\x1b[\x01c\n"}, []string{"a", "bc"}, "bc"},
		{"not UTF-8, direction marks", 5, 100, []string{"a\xffb\u202ec\tdé\n"}, []string{"abc\tdé"}, "abc\tdé"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewLines(tt.lines, tt.bytes)
			for _, w := range tt.writes {
				if n, err := r.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", w, n, err)
				}
			}
			if diff := cmp.Diff(tt.want, r.Lines()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if got := r.Last(); got != tt.last {
				t.Errorf("last = %q, want %q", got, tt.last)
			}
		})
	}
}

func TestLineRingZeroValueKeepsNothing(t *testing.T) {
	var r Lines
	if n, err := r.Write([]byte("a\nb\nc")); n != 5 || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if got := r.Lines(); got != nil {
		t.Errorf("lines = %q, want none", got)
	}
}

func TestLineRingConcurrent(t *testing.T) {
	r := NewLines(50, 1000)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				fmt.Fprintf(r, "writer %d line %d\n", w, i)
				if i%50 == 0 {
					_, _ = r.Lines(), r.Last()
				}
			}
		})
	}
	wg.Wait()
	if got := r.Lines(); len(got) != 50 {
		t.Errorf("%d lines, want 50", len(got))
	}
}

// FuzzLineRing checks the limits and that what is kept is safe to print,
// however the input is cut into writes.
func FuzzLineRing(f *testing.F) {
	f.Add([]byte("a\nb\nc"), uint8(2), uint16(10), uint8(1))
	f.Add([]byte("\x1b[31mred\x1b[0m\n\xff\xfe\n"), uint8(5), uint16(3), uint8(4))
	f.Add([]byte("\x1b[\x1b[\x1b["), uint8(1), uint16(1), uint8(2))
	f.Fuzz(func(t *testing.T, input []byte, lines uint8, size uint16, step uint8) {
		whole := NewLines(int(lines), int(size))
		_, _ = whole.Write(input)
		pieces := NewLines(int(lines), int(size))
		for rest := input; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			_, _ = pieces.Write(rest[:n])
			rest = rest[n:]
		}
		got := whole.Lines()
		if diff := cmp.Diff(got, pieces.Lines()); diff != "" {
			t.Fatalf("whole and in pieces differ:\n%s", diff)
		}
		if len(got) > whole.maxLines {
			t.Errorf("%d lines, limit %d", len(got), whole.maxLines)
		}
		for _, line := range got {
			if !utf8.ValidString(line) || strings.ContainsFunc(line, func(c rune) bool {
				return c != '\t' && (c < 0x20 || c >= 0x7f && c < 0xa0)
			}) {
				t.Errorf("line %q is not safe to print", line)
			}
		}
		if room := min(ringLineBytes, whole.maxBytes) + len("…"); whole.bytes > whole.maxBytes+len("…") || cap(whole.half.text) > 2*room+64 {
			t.Errorf("holds %d bytes and %d of a half line, limit %d", whole.bytes, cap(whole.half.text), whole.maxBytes)
		}
	})
}

// Streams do not write into each other's lines.
func TestLinesOfStreams(t *testing.T) {
	r := NewLines(10, 1000)
	other := r.Stream()
	for _, write := range []func() (int, error){
		func() (int, error) { return r.Write([]byte("one ")) },
		func() (int, error) { return other.Write([]byte("two\nthr")) },
		func() (int, error) { return r.Write([]byte("line\n")) },
		func() (int, error) { return other.Write([]byte("ee\n")) },
	} {
		if _, err := write(); err != nil {
			t.Fatal(err)
		}
	}
	lines, ended := r.Tail()
	if diff := cmp.Diff([]string{"two", "one line", "three"}, lines); diff != "" || ended != 3 {
		t.Error(diff, ended)
	}
}
