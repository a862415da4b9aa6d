//go:build !windows

package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A gateway whose log nobody reads any more serves on.
func TestServesOnWithoutAReaderOfItsLog(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := h.command(context.WithoutCancel(t.Context()), "up", h.file)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ended := make(chan struct{})
	go func() { // ends with the process
		_ = cmd.Wait()
		close(ended)
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Error("it did not end")
		}
	}()
	var said strings.Builder
	at := regexp.MustCompile(`(http://\S+)/mcp `)
	for buf := make([]byte, 512); at.FindString(said.String()) == ""; {
		n, err := r.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
	}
	url := at.FindStringSubmatch(said.String())[1]
	r.Close()
	client := newClient(t)
	for range 3 {
		if status, body := post(t, client, url, "", mcp.MethodToolsList, "", ""); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		h.ok(t, "reload", h.file) // which is logged
	}
	resp, err := client.Get(url + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	select {
	case <-ended:
		t.Fatal("it died of its log")
	default:
	}
}
