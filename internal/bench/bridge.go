package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/mcp"
)

// bridgeProgram is the measure for servers that are processes: HTTP in front of one, of the
// standard library and as plain as it can be. It gives each request an id of its own and passes
// the rest on as it came, without looking into it.
func bridgeProgram(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bridge", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "loopback `address`")
	era := flags.String("era", "legacy", "legacy or modern")
	if err := flags.Parse(args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "light", "-stdio", "-era", *era)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	b := &bridge{in: in}
	read := make(chan error, 1)
	go func() { // ends with the server, which ends with its input
		err := b.read(out)
		if err != nil {
			cancel() // the server waits for a reader
		}
		read <- err
	}()
	err = serve(ctx, *listen, b)
	in.Close()
	return errors.Join(err, <-read, cmd.Wait())
}

// bridge passes requests to a server on a pipe.
type bridge struct {
	mu      sync.Mutex // for in
	in      io.Writer
	last    atomic.Int64
	waiting sync.Map // by id: a chan of the answer
}

var idMember = []byte(`"id":`)

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	before, rest, asks := bytes.Cut(body, idMember)
	if !asks {
		w.WriteHeader(http.StatusAccepted)
		_ = b.send(append(body, '\n'))
		return
	}
	end := bytes.IndexByte(rest, ',')
	if end < 0 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	id, answer := b.last.Add(1), make(chan []byte, 1)
	b.waiting.Store(id, answer)
	defer b.waiting.Delete(id)
	line := append(make([]byte, 0, len(body)+32), before...)
	line = strconv.AppendInt(append(line, idMember...), id, 10)
	if err := b.send(append(append(line, rest[end:]...), '\n')); err != nil {
		http.Error(w, "the server has ended", http.StatusBadGateway)
		return
	}
	select {
	case text := <-answer:
		if bytes.Contains(rest, []byte(`"method":"`+mcp.MethodInitialize+`"`)) {
			w.Header()[mcp.HeaderSession] = []string{"session"}
		}
		before, after, _ := bytes.Cut(text, idMember)
		after = after[max(0, bytes.IndexByte(after, ',')):]
		w.Header()["Content-Type"] = contentType
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(before) + len(idMember) + end + len(after))}
		for _, part := range [][]byte{before, idMember, rest[:end], after} {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	case <-r.Context().Done():
	}
}

func (b *bridge) send(line []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.in.Write(line)
	return err
}

// read hands out the answers of the server until it ends.
func (b *bridge) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxResult+maxRequest)
	for lines.Scan() {
		id, err := strconv.ParseInt(string(between(lines.Bytes(), string(idMember), ',')), 10, 64)
		if err != nil {
			continue // no answer
		}
		if c, ok := b.waiting.Load(id); ok {
			select {
			case c.(chan []byte) <- bytes.Clone(lines.Bytes()):
			default: // answered already
			}
		}
	}
	return lines.Err()
}
