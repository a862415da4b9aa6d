//go:build !windows

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/proxy/refusal"
)

// stdioClient is a legacy client of a `toolgate stdio`.
type stdioClient struct {
	*process
	next int
}

func (h *home) stdioClient(t *testing.T) *stdioClient {
	t.Helper()
	c := &stdioClient{process: h.start(t, "stdio", h.file, "--wait", "20s")}
	c.write(t, hello)
	c.says(t, c.out, `"id":0,"result"`)
	return c
}

func (c *stdioClient) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		t.Fatal(err)
	}
}

// pid calls the tool that tells the process id of the server, until a call is
// not one that lost its gateway.
func (c *stdioClient) pid(t *testing.T) int {
	t.Helper()
	for range 10 {
		c.next++
		c.write(t, callLine(c.next, "a__pid"))
		line := c.says(t, c.out, fmt.Sprintf(`(?m)^.*"id":%d,.*$`, c.next))[0]
		if found := pidIn.FindStringSubmatch(line); found != nil {
			pid, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		if !strings.Contains(line, refusal.KindGatewayLost) {
			t.Fatalf("answer %s", line)
		}
	}
	t.Fatal("every call loses its gateway")
	return 0
}

// owner tells which process holds the state folder.
func (h *home) owner(t *testing.T) int {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(h.dir, "state", "*", "store.db.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks: %v, %v", locks, err)
	}
	text, err := os.ReadFile(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}
