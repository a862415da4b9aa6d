// Command model-server is a model's endpoint for the examples alone. It says what a script
// has it say, in the wire formats of OpenAI's chat completions and responses and of
// Anthropic's messages, streams included. It refuses requests that a real endpoint would
// refuse.
//
//	model-server ADDRESS SCRIPT
//
// The script is a JSON file such as
//
//	{"turns": [
//	  {"text": "I look.", "calls": [{"tool": "notes__list_notes", "args": {}}]},
//	  {"text": "There is nothing.", "usage": {"input": 120, "output": 8}}
//	]}
//
// The first turn is said to a conversation without a turn of the model, the second to one
// with one, and so on. A turn with "when" is said whenever the last message holds that text.
// "delay", "fault" and what else there is stand in package modeltest.
//
// MODEL_KEY is the key that it asks for. It prints a line for each request that it takes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/agents/model/modeltest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: model-server ADDRESS SCRIPT")
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	script, err := modeltest.Parse(data)
	if err != nil {
		return err
	}
	endpoint := &modeltest.Server{Script: *script, Key: os.Getenv("MODEL_KEY"), Seen: func(s modeltest.Seen) {
		fmt.Fprintln(out, line(s))
	}}
	s := &http.Server{Addr: args[0], Handler: endpoint, ReadTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// line tells of a request and its answer.
func line(s modeltest.Seen) string {
	t := s.Turn
	switch {
	case t == nil:
		return s.Format + ": the script is over"
	case t.Fault != "":
		return s.Format + ": " + string(t.Fault)
	}
	var out strings.Builder
	out.WriteString(s.Format + ": " + t.Text)
	for i := range t.Calls {
		out.WriteString(" [" + t.Calls[i].Tool + "]")
	}
	return strings.TrimSpace(out.String())
}
