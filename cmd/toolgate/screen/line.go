package screen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// ReadLine returns the line that a person types, which is not shown if it is a secret. When the
// program is interrupted meanwhile, the terminal is as it was before.
func ReadLine(terminal *os.File, secret bool) (string, error) {
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return "", fmt.Errorf("read the terminal: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // ends with the line, or with the program
		if secret {
			text, err := term.ReadPassword(int(terminal.Fd()))
			answered <- answer{string(text), err}
			return
		}
		line, err := bufio.NewReader(terminal).ReadString('\n')
		answered <- answer{strings.TrimRight(line, "\r\n"), err}
	}()
	select {
	case a := <-answered:
		if secret || a.err != nil { // Enter is not shown, or was not pressed
			fmt.Fprintln(os.Stderr)
		}
		if a.err != nil {
			return "", errors.New("nobody answered")
		}
		return a.text, nil
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return "", errors.Join(errors.New("interrupted"), term.Restore(int(terminal.Fd()), before))
	}
}
