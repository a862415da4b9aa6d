package mcp

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
)

// checkPlain holds what both say of a text against a look at each byte.
func checkPlain(t *testing.T, b []byte) {
	t.Helper()
	special := 0
	for ; special < len(b); special++ {
		if c := b[special]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			break
		}
	}
	for name, got := range map[string]int{"plainText": plainText(b), "plainWords": plainWords(b)} {
		if whole := special / 32 * 32; got > special || got < whole {
			t.Errorf("%s(%q) = %d, want %d to %d", name, b, got, whole, special)
		}
	}
}

func TestPlainText(t *testing.T) {
	memory := bytes.Repeat([]byte{'"'}, 300) // what is around a text is not read
	for _, size := range []int{0, 1, 31, 32, 33, 63, 64, 65, 95, 96, 200} {
		for from := range 33 {
			b := memory[from : from+size]
			for i := range b {
				b[i] = byte(0x20 + i%0x60)
				if b[i] == '"' || b[i] == '\\' {
					b[i] = 0x7F
				}
			}
			checkPlain(t, b)
			for at := range b {
				was := b[at]
				for _, c := range []byte{0, 1, 0x1F, 0x20, '!', '"', '#', '[', '\\', ']', 0x7F, 0x80, 0xA2, 0xDC, 0xFF} {
					b[at] = c
					checkPlain(t, b)
				}
				b[at] = was
			}
			for i := range b {
				b[i] = '"'
			}
		}
	}
	b := bytes.Repeat([]byte{'a'}, 32)
	for c := range 256 {
		b[17] = byte(c)
		checkPlain(t, b)
	}
}

// A long text ends where it ends, whatever its length and whatever is in it.
func TestLongTexts(t *testing.T) {
	for _, size := range []int{0, 7, 8, 31, 32, 39, 40, 71, textPart - 1, textPart, textPart + longText, textPart + longText + 9, 3*textPart + 77} {
		plain := bytes.Repeat([]byte{'x'}, size)
		for _, end := range []string{`"`, `\n"`, `é"`, `\u00e9 and more than thirty-two bytes behind it"`} {
			text := append(append([]byte{'"'}, plain...), end...)
			if err := Validate(text, Limits{}); err != nil {
				t.Errorf("%d bytes and %s: %v", size, end, err)
			}
			if err := Validate(text[:len(text)-1], Limits{}); err == nil {
				t.Errorf("%d bytes and %s: a text without an end", size, end)
			}
		}
		for _, wrong := range []string{"\x1f\"", "\xff\"", "\n\"", `\x"`} {
			text := append(append([]byte{'"'}, plain...), wrong...)
			err, _ := errors.AsType[*SyntaxError](Validate(text, Limits{}))
			if err == nil || err.Offset < size+1 || err.Offset > size+2 {
				t.Errorf("%d bytes and %q: %v", size, wrong, err)
			}
		}
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add([]byte(`a text with a "quote", a \ and an ü beyond the first thirty-two bytes`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for from := range min(len(b), 33) {
			checkPlain(t, b[from:])
		}
	})
}

func BenchmarkText(b *testing.B) {
	for _, size := range []int{20, 100, 64 << 10, 1 << 20} {
		text := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, size)...), '"')
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := Validate(text, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
