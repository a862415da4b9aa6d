//go:build !windows

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/http1"
)

var loadTime = flag.Duration("load", time.Duration(raced.Times(1, 3))*time.Second, "how long calls of many callers are cancelled, and the configuration reloaded, under load")

// echoServer is a server of 2026-07-28 over HTTP whose tool echo answers with its text, as one
// message or as a stream. The text "wait" waits until the call is cancelled.
func echoServer(t testing.TB) (url string) {
	t.Helper()
	return modernServer(t, `{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`, func(w http.ResponseWriter, r *http.Request, m *mcp.Message) string {
		text, _ := mcp.LookupString(m.Params(), "arguments", "text")
		if strings.Contains(text, "wait") {
			<-r.Context().Done()
			return ""
		}
		result := `{"resultType":"complete","content":[{"type":"text","text":` + string(mcp.Quote(text)) + `}]}`
		if rand.N(3) > 0 {
			return result
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", mcp.AppendResult(nil, m.ID, []byte(result)))
		return ""
	})
}

// Callers call as fast as they can, and many of them leave in the middle of their calls, while
// the configuration changes: no caller is answered with anything of another call, and none is
// recorded as another one's. The memory of calls is used again all the while.
func TestLoadWithCancelsAndReloads(t *testing.T) {
	const callers = 8
	var keys []string
	for i := range callers {
		keys = append(keys, fmt.Sprintf("caller%d", i))
	}
	url := echoServer(t)
	h := newHome(t)
	write := func(n int) {
		section := withKeys(keys...)
		section["budgets"] = []any{map[string]any{"name": "all", "per": "subject", "limit": 1_000_000_000 + n%2, "window": "month"}}
		section["rates"] = []any{map[string]any{"name": "fast", "per": "principal", "limit": 900_000 + n%100, "window": "1m"}}
		section["servers"] = map[string]any{"b": map[string]any{"concurrency": 100 + n%50}}
		section["governance"] = map[string]any{"tools": map[string]any{"*__echo": map[string]any{"class": "read_only", "risk": "low", "max_bytes": fmt.Sprintf("%dKB", 100+n%3)}}}
		h.write(t, servers{"s": {"type": "http", "url": url}, "b": {"type": "http", "url": url}}, section)
	}
	write(0)
	r := h.newRunning(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http1.New(proxy.NewServer(r.Handler()))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // ends with Close
	t.Cleanup(func() {
		if server.Close(); !errors.Is(<-served, http.ErrServerClosed) {
			t.Error("the server has failed")
		}
	})
	until := time.Now().Add(*loadTime)
	var answered, left, reloads atomic.Int64
	var all sync.WaitGroup
	for _, who := range keys {
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for i := 0; time.Now().Before(until); i++ {
				text := fmt.Sprintf("%s %d", who, i)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if i%4 == 3 { // it leaves at some moment
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
				}
				if i%16 == 3 {
					text = strings.Replace(text, " ", " wait ", 1)
				}
				status, got, err := callEcho(ctx, c, "http://"+l.Addr().String()+"/mcp", who, []string{"s", "b"}[i%2], text)
				switch {
				case err != nil && ctx.Err() != nil:
					left.Add(1)
				case err != nil:
					t.Errorf("%s: %v", text, err)
				case status != http.StatusOK || !strings.Contains(got, `"text":"`+text+`"`):
					t.Errorf("%s was answered with %d %s", text, status, got)
				default:
					answered.Add(1)
				}
				cancel()
			}
		})
	}
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 1; time.Now().Before(until); n++ {
			<-tick.C
			write(n)
			if _, err := r.Reload(); err != nil {
				t.Error(err)
				return
			}
			reloads.Add(1)
		}
	})
	all.Wait()
	t.Logf("%d calls answered, %d left, %d reloads", answered.Load(), left.Load(), reloads.Load())
	if answered.Load() == 0 || left.Load() == 0 || reloads.Load() == 0 {
		t.Error("nothing happened")
	}
	recordedAsTheirs(t, h)
}

// callEcho calls the tool echo of a server, as a client of 2026-07-28.
func callEcho(ctx context.Context, c *http.Client, url, who, server, text string) (status int, answer string, err error) {
	name := server + "__echo"
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{"text":"` + text + `"},"_meta":{` +
		`"` + mcp.MetaVersion + `":"2026-07-28","` + mcp.MetaClientInfo + `":{"name":"t","version":"1"},"` + mcp.MetaCapabilities + `":{}}}}`
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + who, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		mcp.HeaderVersion: "2026-07-28", mcp.HeaderMethod: mcp.MethodToolsCall, mcp.HeaderName: name,
	} {
		q.Header.Set(name, value)
	}
	got, err := c.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	return got.StatusCode, string(raw), err
}

// recordedAsTheirs checks that the audit log charges each call to its caller, and comes to have
// the end of each that it has the beginning of.
func recordedAsTheirs(t *testing.T, h *home) {
	t.Helper()
	testwait.Until(t, patience, "all calls have ended", func() bool {
		open := make(map[string]string) // callers by the ids of calls
		for line := range strings.SplitSeq(h.text(t, h.path("state/audit.jsonl")), "\n") {
			var e audit.Entry
			if line == "" || json.Unmarshal([]byte(line), &e) != nil || e.CallID == "" {
				continue
			}
			who := e.Principal.Subject
			if before, begun := open[e.CallID]; begun && before != who {
				t.Errorf("the call of %s ended as one of %s", before, who)
			}
			for _, b := range e.Budgets {
				if !strings.Contains(b.Key, who) {
					t.Errorf("a call of %s was charged to %s", who, b.Key)
				}
			}
			if e.Event != audit.EventEnd {
				open[e.CallID] = who
			} else {
				delete(open, e.CallID)
			}
		}
		return len(open) == 0
	})
}
