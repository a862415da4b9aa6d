package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
)

// pipeProgram is the fast server of legacy clients on standard input and output.
func pipeProgram(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("pipe", flag.ContinueOnError)
	tools := flags.Int("tools", 0, "tools besides those of its own")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := pipeServer{fast: newFastServer(false, false, *tools)}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		answer, err := s.answer(ctx, lines.Bytes())
		if err == nil && answer != nil {
			_, err = os.Stdout.Write(append(answer, '\n'))
		}
		if err != nil {
			return fmt.Errorf("answer a line: %w", err)
		}
	}
	return lines.Err()
}

// pipeServer is the fast server for the one client of a pipe.
type pipeServer struct {
	fast    *fastServer
	session string
}

// answer returns the answer to a message; nil for none.
func (s *pipeServer) answer(ctx context.Context, message []byte) ([]byte, error) {
	var m struct{ Method string }
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, fmt.Errorf("read a message: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(message))
	if err != nil {
		return nil, fmt.Errorf("make a request of a message: %w", err)
	}
	if s.fast.modern {
		r.Header[mcp.HeaderVersion], r.Header[mcp.HeaderMethod] = modernHeader, []string{m.Method}
	}
	if s.session != "" {
		r.Header[mcp.HeaderSession] = []string{s.session}
	}
	w := httptest.NewRecorder()
	s.fast.ServeHTTP(w, r)
	if id := w.Header().Get(mcp.HeaderSession); id != "" {
		s.session = id
	}
	if w.Body.Len() == 0 {
		return nil, nil
	}
	return bytes.TrimSpace(w.Body.Bytes()), nil
}

// pipeStep is the least room for one read of a pipe, in bytes.
const pipeStep = 64 << 10

// pipe answers the messages of a pipe until it ends: all that are there with one write.
func (s *light) pipe(ctx context.Context, in io.Reader, out io.Writer) error {
	slow := pipeServer{fast: s.fast}
	var read, answers []byte
	for {
		read = slices.Grow(read, pipeStep)
		n, ended := in.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
		rest := read
		answers = answers[:0]
		for {
			line, more, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			rest = more
			if s.message(line) {
				answers = append(append(answers, s.body...), '\n')
				continue
			}
			answer, err := slow.answer(ctx, line)
			if err != nil {
				return err
			}
			if answer != nil {
				answers = append(append(answers, answer...), '\n')
			}
		}
		read = read[:copy(read, rest)]
		if len(answers) > 0 {
			if _, err := out.Write(answers); err != nil {
				return fmt.Errorf("answer: %w", err)
			}
		}
		switch {
		case errors.Is(ended, io.EOF):
			return nil
		case ended != nil:
			return fmt.Errorf("read the messages: %w", ended)
		case len(read) > maxRequest:
			return fmt.Errorf("a message has more than %d bytes", maxRequest)
		}
	}
}
