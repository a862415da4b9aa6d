//go:build !windows

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/sdktest"
)

// The test program is the plugin as well when a gateway starts it.
func TestMain(m *testing.M) {
	if os.Getenv(proto.CookieKey) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestAddUp tests the function by itself.
func TestAddUp(t *testing.T) {
	p := sdk.New("sums", "test")
	sdk.Add(p, sdk.Tool{Name: "add_up"}, sums{slog.New(slog.DiscardHandler)}.addUp)
	c := sdktest.Start(t, p, "{}")
	got, err := c.Call(t.Context(), "add_up", numbers{To: 3})
	if err != nil || string(got.Structured) != `{"sum":6}` || len(got.Progress) != 3 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = c.Call(t.Context(), "add_up", numbers{}); err != nil || !got.IsError || !strings.Contains(got.Text, "1 or more") {
		t.Errorf("%+v %v", got, err)
	}
}

// TestCrash ends the plugin's process, which its host starts again.
func TestCrash(t *testing.T) {
	p := running(t)
	call := &mcp.Call{Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: "add_up", Params: []byte(`{"name":"add_up","arguments":{"to":4}}`)}
	if got, err := p.Call(t.Context(), call); err != nil || !strings.Contains(string(got.Result), `"sum":10`) {
		t.Fatal(string(got.Result), err)
	}
	// A call that was in progress is not retried.
	pid := p.PID()
	begun := make(chan struct{}, 1)
	long := &mcp.Call{
		Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: "add_up", Params: []byte(`{"name":"add_up","arguments":{"to":1000,"pause_ms":20}}`),
		Progress: true, Notify: func(string, []byte) {
			select {
			case begun <- struct{}{}:
			default:
			}
		},
	}
	go func() {
		<-begun
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	_, err := p.Call(t.Context(), long)
	if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailUnavailable || !strings.Contains(f.Reason, "is not known") {
		t.Errorf("a call whose process ends: %v", err)
	}
	tick, end := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for p.PID() == 0 || p.PID() == pid {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it is not started again")
		}
	}
	if got, err := p.Call(t.Context(), call); err != nil || !strings.Contains(string(got.Result), `"sum":10`) {
		t.Error(string(got.Result), err)
	}
}

// running is this program as a plugin of a gateway's host, until the test ends.
func running(t *testing.T) *native.Plugin {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	host, err := native.NewHost(native.Options{Folder: dir + "/sockets", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := host.Plugin(native.Spec{
		Key: "sums", Path: path, SHA256: hex.EncodeToString(sum[:]), AutoMTLS: true, Policy: sandbox.Policy{Mode: sandbox.Off},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		os.RemoveAll(dir)
	})
	return p
}
