package screen

import (
	"context"
	"fmt"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// The keys that are no letters.
const (
	KeyInterrupt = 0x03 // Ctrl-C
	KeyEnd       = 0x04 // Ctrl-D
	KeyBackspace = 0x08
	KeyClear     = 0x15 // Ctrl-U
	KeyEscape    = 0x1b
	KeyDelete    = 0x7f
)

// Raw runs f while keys are read as they are pressed, on a screen that is not the
// one of the shell. Afterwards, also after a panic, the terminal is as it was before.
func Raw(in, out *os.File, f func() error) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer func() {
		_, _ = out.WriteString("\x1b[?25h\x1b[?1049l") // there is nobody to report an error to
		_ = term.Restore(int(in.Fd()), before)
	}()
	if _, err := out.WriteString("\x1b[?1049h\x1b[?25l"); err != nil { // the other screen, no cursor
		return err
	}
	return f()
}

// ReadKeys passes on what is typed. It ends at the end of the terminal, or with the first
// key after ctx has ended, at the latest with the process.
func ReadKeys(ctx context.Context, in *os.File, typed chan<- []byte) {
	defer close(typed)
	for {
		buffer := make([]byte, 256)
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		select {
		case typed <- buffer[:n]:
		case <-ctx.Done():
			return
		}
	}
}

// Pressed returns the keys of a text that was typed, without those that are sent as a
// sequence, such as arrows.
func Pressed(text []byte) []rune {
	var keys []rune
	for len(text) > 0 {
		if len(text) > 1 && text[0] == KeyEscape && (text[1] == '[' || text[1] == 'O') {
			end := 2
			for end < len(text) && (text[end] < '@' || text[end] > '~') {
				end++
			}
			text = text[min(end+1, len(text)):]
			continue
		}
		r, size := utf8.DecodeRune(text)
		keys, text = append(keys, r), text[size:]
	}
	return keys
}
