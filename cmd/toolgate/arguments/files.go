package arguments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/failure"
)

// Pair is one NAME=VALUE.
type Pair struct {
	Name, Value string
	from        string // the file that the value comes from; empty if it was typed
}

// MaxFile bounds the file that the value of an argument is read from, in bytes. Messages to
// a gateway are bounded as well (limits.body, 16 MiB by default).
const MaxFile = 8 << 20

// Pairs splits NAME=VALUE. A value that begins with @ names a file that holds it, and @-
// stands for stdin; @@ is a plain @. It stops reading when ctx ends.
func Pairs(ctx context.Context, typed []string, stdin io.Reader) ([]Pair, error) {
	pairs := make([]Pair, 0, len(typed))
	fromStdin := ""
	for _, text := range typed {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, failure.Newf(failure.Usage, "%q is not NAME=VALUE; write each argument of the tool in this form, or all of them with --json", text)
		}
		pair := Pair{Name: name, Value: value}
		file, refers := strings.CutPrefix(value, "@")
		switch {
		case !refers:
		case strings.HasPrefix(file, "@"):
			pair.Value = file
		case file == "":
			return nil, failure.Newf(failure.Usage, "%s=@ names no file; write %s=@FILE, %s=@- for stdin, or %s=@@ for the text @", name, name, name, name)
		case file == "-" && fromStdin != "":
			return nil, failure.Newf(failure.Usage, "%s=@- and %s=@- both read stdin, which can be read once; put one of them into a file", fromStdin, name)
		default:
			var err error
			if pair.Value, err = contents(ctx, name, file, stdin); err != nil {
				return nil, err
			}
			pair.from = file
			if file == "-" {
				fromStdin, pair.from = name, "stdin"
			}
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// contents reads the value of an argument from a file, until ctx ends: a pipe or a terminal
// may never end.
func contents(ctx context.Context, name, file string, stdin io.Reader) (string, error) {
	type read struct {
		text string
		err  error
	}
	done := make(chan read, 1)
	go func() { // ends with the file, or with the process
		text, err := readFile(name, file, stdin)
		done <- read{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", failure.Newf(failure.Usage, "%s=@%s was interrupted before its end was read; nothing was called", name, file)
	}
}

func readFile(name, file string, stdin io.Reader) (string, error) {
	in, what := stdin, "stdin"
	if file != "-" {
		f, err := open(file)
		if err != nil {
			return "", failure.Newf(failure.Usage, "%s=@%s: %w; write %s=@@%s for the text @%s", name, file, err, name, file, file)
		}
		defer f.Close()
		in, what = f, file
	}
	text, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	switch {
	case err != nil:
		return "", failure.Newf(failure.Usage, "%s=@%s: %s cannot be read: %w", name, file, what, plain(err))
	case len(text) > MaxFile:
		return "", failure.Newf(failure.Usage, "%s=@%s: %s has more than %d MiB, the most that an argument takes from a file; pass a shorter one", name, file, what, MaxFile>>20)
	case !utf8.Valid(text):
		return "", failure.Newf(failure.Usage, "%s=@%s: %s is not text in UTF-8, as JSON must be; encode it in the way that the tool expects, such as with base64", name, file, what)
	}
	return string(text), nil
}

// open opens a file, and says for a person what is wrong.
func open(file string) (*os.File, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", file)
	case err != nil:
		return nil, fmt.Errorf("the file %s cannot be read: %w", file, plain(err))
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder, not a file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", file, plain(err))
	}
	return f, nil
}

// plain returns what is wrong without the name of the operation.
func plain(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}
