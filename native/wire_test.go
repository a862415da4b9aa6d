package native

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/toolgate/toolgate/internal/child"
)

// TestWireBeginsWithHello reads what a process gets, for a hello that its pipe cannot hold.
func TestWireBeginsWithHello(t *testing.T) {
	hello := append(bytes.Repeat([]byte("h"), 300<<10), '\n')
	r := newRunner("x", nil, hello, true)
	var err error
	if r.pipes, err = child.OpenPipes(); err != nil {
		t.Fatal(err)
	}
	defer r.pipes.Close()
	defer r.pipes.CloseChild()
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(r.pipes.Child[0])
		got <- all
	}()
	dial := r.dialer()
	conn, err := dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("PRI * HTTP/2.0")); err != nil {
		t.Error(err)
	}
	conn.Close()
	if want := append(hello, "PRI * HTTP/2.0"...); !bytes.Equal(<-got, want) {
		t.Error("the process gets something else first")
	}
	if _, err := dial(t.Context(), ""); err == nil {
		t.Error("a second connection")
	}
}

// TestWireOfAProcessThatDoesNotRead ends with the start.
func TestWireOfAProcessThatDoesNotRead(t *testing.T) {
	r := newRunner("x", nil, make([]byte, 300<<10), true)
	var err error
	if r.pipes, err = child.OpenPipes(); err != nil {
		t.Fatal(err)
	}
	defer r.pipes.Close()
	defer r.pipes.CloseChild()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the start is over")
	cancelled := make(chan struct{})
	go func() {
		defer close(cancelled)
		_, _ = io.ReadFull(r.pipes.Child[0], make([]byte, 10)) // it is being written
		cancel(over)
	}()
	if _, err := r.dialer()(ctx, ""); !errors.Is(err, over) {
		t.Errorf("%v", err)
	}
	<-cancelled
}
