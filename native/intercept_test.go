//go:build !windows

package native

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/proto"
)

// TestIntercept asks a real process about calls, in frames and over gRPC. Its panic is an
// error, and so is its end.
func TestIntercept(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("frames", func(t *testing.T) { testIntercept(t, specOf("plain"), folder, true) })
	t.Run("confined", func(t *testing.T) {
		testIntercept(t, confinedSpec(t, "plain", sandbox.Policy{Mode: sandbox.Auto, Write: []string{folder}}), folder, true)
	})
	t.Run("gRPC", func(t *testing.T) { testIntercept(t, specOf("before frames"), folder, false) })
}

func testIntercept(t *testing.T, spec Spec, folder string, framed bool) {
	p := run(t, spec)
	out, err := p.Intercept(t.Context(), &proto.InterceptRequest{Name: "echo", Principal: "alice", PayloadJson: []byte(`{"a":1}`)})
	if err != nil || out.GetDecision() != proto.Decision_DECISION_ALLOW || out.GetReason() != "alice" || string(out.GetPayloadJson()) != `{"a":1}` {
		t.Errorf("%v, %v", out, err)
	}
	running, err := p.serving(t.Context())
	if err != nil || (running.frames != nil) != framed {
		t.Errorf("frames: %t, %v", running.frames != nil, err)
	}
	large := bytes.Repeat([]byte("a"), 3<<20) // more than a frame has
	if out, err := p.Intercept(t.Context(), &proto.InterceptRequest{PayloadJson: large}); err != nil || !bytes.Equal(out.GetPayloadJson(), large) {
		t.Errorf("%d bytes of %d, %v", len(out.GetPayloadJson()), len(large), err)
	}
	if framed { // a connection that is lost is made again; meanwhile gRPC has to do
		running.frames.now().Close()
		for i := 0; running.frames.now() == nil || i == 0; i++ {
			if _, err := p.Intercept(t.Context(), &proto.InterceptRequest{Name: "echo"}); err != nil {
				t.Fatalf("without a connection: %v", err)
			}
		}
		if _, err := p.Intercept(t.Context(), &proto.InterceptRequest{Name: "echo"}); err != nil {
			t.Errorf("connected again: %v", err)
		}
	}
	noted := filepath.Join(folder, "canceled")
	_ = os.Remove(noted)
	// No deadline: the plugin would hear of it too, and may answer just before this side gives up.
	waiting, stop := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, stop).Stop()
	if _, err := p.Intercept(waiting, &proto.InterceptRequest{Name: "wait", PayloadJson: []byte(noted)}); !errors.Is(err, context.Canceled) {
		t.Errorf("one that is given up: %v", err)
	}
	testwait.Until(t, patience, "it is canceled in the plugin", func() bool { _, err := os.Stat(noted); return err == nil })
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

// TestFramesAreThePlugins keeps a plugin from having the gateway connect to a socket
// outside of its folder.
func TestFramesAreThePlugins(t *testing.T) {
	spec := specOf("lying")
	spec.Env = append(spec.Env, folderVar+"="+t.TempDir())
	p := run(t, spec)
	s := p.await(t, mcp.Failed)
	if !strings.Contains(s.Reason, "not a socket in PLUGIN_UNIX_SOCKET_DIR") {
		t.Errorf("%+v", s)
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
