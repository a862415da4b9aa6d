package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// connected returns a pipe over a connection whose other end the test plays.
func connected(t *testing.T) (*pipe, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	o := &Options{Log: slog.New(slog.DiscardHandler), Limits: Limits{Result: 1000, Line: 100, Depth: 10, Events: 10}}
	p := newPipe(o, near, near, func(mcp.Message) {})
	p.hangUp = func(context.Context) { near.Close() }
	p.start()
	t.Cleanup(func() {
		p.Close(context.Background())
		far.Close()
	})
	return p, far
}

// A pipe carries a request to whatever reads lines, and its answer back. However the
// other end misbehaves, the request ends with the reason.
func TestPipe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string // nothing closes the connection
		want         string
	}{
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, `{"a":1}`},
		{"an answer after noise", "Listening...\r\n\n" + `{"jsonrpc":"2.0","id":1,"result":{"a":2}}` + "\r", `{"a":2}`},
		{"an answer that is too long", `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 100) + `"}}`, ErrTooLarge.Error()},
		{"an invalid answer", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, "an invalid answer"},
		{"the end", "", errHungUp.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, far := connected(t)
			read := make(chan string, 1)
			go func() {
				line, _ := bufio.NewReader(far).ReadString('\n')
				if read <- line; tt.answer == "" {
					far.Close()
					return
				}
				_, _ = far.Write([]byte(tt.answer + "\n"))
			}()
			const request = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
			msg, err := p.RoundTrip(t.Context(), &Request{ID: "1", Raw: []byte(request)})
			if got := string(msg.Result()) + fmt.Sprint(err); !strings.Contains(got, tt.want) || err != nil && !Delivered(err) {
				t.Errorf("the answer is %s, want %s, delivered", got, tt.want)
			}
			if got := <-read; got != request+"\n" {
				t.Errorf("the server was sent %q", got)
			}
		})
	}
}

// What cannot be written any more was not delivered, and says why.
func TestPipeClosed(t *testing.T) {
	t.Parallel()
	p, _ := connected(t)
	if err := p.Cause(); err != nil {
		t.Errorf("an open link has the cause %v", err)
	}
	p.Close(t.Context())
	<-p.Done()
	if err := p.Send(t.Context(), []byte(`{}`), nil); err == nil || Delivered(err) {
		t.Errorf("after the end a message is sent with %v", err)
	}
	if err := p.Cause(); err == nil {
		t.Error("a closed link has no cause")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	late := errors.New("too late")
	cancel(late)
	p, _ = connected(t)                                            // whose other end reads nothing
	if err := p.Send(t.Context(), []byte(`{}`), nil); err != nil { // the writer has it
		t.Error(err)
	}
	if err := p.Send(ctx, []byte(`{}`), nil); !errors.Is(err, late) || Delivered(err) {
		t.Errorf("a message that nobody reads is sent with %v", err)
	}
}

// What the configuration names is a transport, and nothing else is.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"stdio": true, "http": true, "sse": true, "": false, "auto": false, "ws": false} {
		if kind, ok := KindOf(name); ok != want || (kind.Dial != nil) != want {
			t.Errorf("%q is a transport: %t, want %t", name, ok, want)
		}
	}
}
