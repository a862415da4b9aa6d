//go:build !windows

package native

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/proto"
)

// TestIntercept asks a real process about calls. Its panic is an error, and so is its end.
func TestIntercept(t *testing.T) {
	p := run(t, specOf("plain"))
	out, err := p.Intercept(t.Context(), &proto.InterceptRequest{Name: "echo", Principal: "alice", PayloadJson: []byte(`{"a":1}`)})
	if err != nil || out.GetDecision() != proto.Decision_DECISION_ALLOW || out.GetReason() != "alice" || string(out.GetPayloadJson()) != `{"a":1}` {
		t.Errorf("%v, %v", out, err)
	}
	for _, c := range []struct{ name, want string }{ // the process is gone after the last
		{"panic", "the plugin play failed: Intercept panicked: oh"}, {"exit", "the plugin play failed"},
	} {
		if _, err := p.Intercept(t.Context(), &proto.InterceptRequest{Name: c.name}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	p.await(t, mcp.Ready)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Intercept(ended, &proto.InterceptRequest{Name: "echo"}); err == nil {
		t.Error("a call that has ended is answered")
	}
}

// BenchmarkIntercept is one question to a plugin in a process of its own.
func BenchmarkIntercept(b *testing.B) {
	h, err := NewHost(Options{Folder: b.TempDir() + "/s", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	p := h.Plugin(specOf("plain"))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	defer func() {
		stop()
		<-ended
	}()
	in := &proto.InterceptRequest{Interceptor: "i", Phase: "before", Name: "s__echo", Principal: "alice", PayloadJson: []byte(`{"text":"hello"}`)}
	if _, err := p.Intercept(ctx, in); err != nil { // it has started then
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Intercept(ctx, in); err != nil {
			b.Fatal(err)
		}
	}
}
