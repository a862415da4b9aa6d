package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/toolgate/toolgate/internal/mcp"
)

// pipeProgram is the fast server of legacy clients on standard input and output.
func pipeProgram(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("pipe", flag.ContinueOnError)
	tools := flags.Int("tools", 0, "tools besides those of its own")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := newFastServer(false, false, *tools)
	session := ""
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(lines.Bytes()))
		if err != nil {
			return fmt.Errorf("make a request of a line: %w", err)
		}
		if session != "" {
			r.Header[mcp.HeaderSession] = []string{session}
		}
		w := &pipeWriter{header: http.Header{}}
		s.ServeHTTP(w, r)
		if id := w.header.Get(mcp.HeaderSession); id != "" {
			session = id
		}
		if w.body.Len() == 0 {
			continue
		}
		if _, err := os.Stdout.Write(append(bytes.TrimSpace(w.body.Bytes()), '\n')); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
	return lines.Err()
}

// pipeWriter keeps an answer.
type pipeWriter struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (*pipeWriter) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (w *pipeWriter) Write(p []byte) (int, error) { return w.body.Write(p) }
