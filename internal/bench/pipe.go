package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
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
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if id := w.Header().Get(mcp.HeaderSession); id != "" {
			session = id
		}
		if w.Body.Len() == 0 {
			continue
		}
		if _, err := os.Stdout.Write(append(bytes.TrimSpace(w.Body.Bytes()), '\n')); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
	return lines.Err()
}
