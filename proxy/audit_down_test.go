//go:build !windows

package proxy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// When the end of a call cannot be written, the call still returns its result. Later
// calls are refused before they reach their server. Once the log is writable again the
// end is written too.
func TestAnEndThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	key := audit.Key{ID: "k", Secret: make([]byte, 32)}
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	calls, breaks := 0, false
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		if calls++; breaks { // while the call is under way, the file becomes a folder
			if err := os.Rename(path, path+".1"); err != nil {
				t.Error(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Error(err)
			}
			_ = l.Reopen() // as at SIGHUP; it keeps its file
			testwait.Until(t, 30*time.Second, "the log looks for its file", func() bool {
				_ = l.Append(&audit.Entry{Event: audit.EventChange})
				return l.Healthy() != nil
			})
		}
		return answered(mcp.Legacy, `{"content":[{"type":"text","text":"done"}]}`), nil
	}
	r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Auditor = l })
	session := r.open()
	call := func() string { return r.legacy(session, "1", mcp.MethodToolsCall, `{"name":"s__echo"}`).text() }
	if got := call(); !strings.Contains(got, "done") {
		t.Fatalf("before: %s", got)
	}
	breaks = true
	if got := call(); !strings.Contains(got, "done") {
		t.Errorf("the call whose end cannot be written: %s", got)
	}
	breaks = false
	if got := call(); !strings.Contains(got, `"audit_unavailable"`) || calls != 2 {
		t.Errorf("the call after that, of %d that reached the server: %s", calls, got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, 30*time.Second, "the log takes entries again", func() bool { return l.Healthy() == nil })
	if got := call(); !strings.Contains(got, "done") || calls != 3 {
		t.Errorf("repaired, the call: %s", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	report, err := audit.VerifyLog(path, []audit.Key{key}, nil, nil)
	if err != nil || len(report.Findings) > 0 || report.Open != 0 || report.Calls != 4 || report.Lost != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
