package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/intercept/webhook"
)

// posted is what the receivers of webhooks are posted, in the order in which it comes.
type posted struct {
	mu     sync.Mutex
	bodies bytes.Buffer
}

// ServeHTTP notes a question. An interceptor whose path is /mutation adds its name to what
// it sees.
func (p *posted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q struct {
		Interceptor, Call string
		Arguments, Result json.RawMessage
	}
	if err != nil || json.Unmarshal(body, &q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	fmt.Fprintf(&p.bodies, "%s\n", strings.ReplaceAll(string(body), q.Call, "{call}"))
	p.mu.Unlock()
	answer := map[string]any{"decision": "allow"}
	if r.URL.Path == "/mutation" {
		member, payload, at := "arguments", []byte(q.Arguments), "by"
		if q.Result != nil {
			member, payload, at = "result", q.Result, "_meta"
			answer["note"] = "seen by " + q.Interceptor
		}
		before, _ := mcp.LookupString(payload, at)
		if at == "_meta" {
			before, _ = mcp.LookupString(payload, at, "by")
		}
		value := mcp.Quote(strings.TrimSpace(before + " " + q.Interceptor))
		if at == "_meta" {
			value = mcp.SetMember([]byte("{}"), "by", value)
		}
		answer[member] = json.RawMessage(mcp.SetMember(payload, at, value))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// TestInterceptorsInOrder holds what the receivers of webhooks are posted, what the server
// gets, and what the client gets against testdata/intercept_order.txtar. The file "order"
// has the interceptors as an operator lists them: name, type and priority.
func TestInterceptorsInOrder(t *testing.T) {
	file := filepath.Join("testdata", "intercept_order.txtar")
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := &posted{}
	receiver := httptest.NewServer(seen)
	defer receiver.Close()
	var entries []intercept.Entry
	for line := range strings.Lines(string(archive.Files[0].Data)) {
		f := strings.Fields(line)
		s := intercept.Settings{Name: f[0], Type: f[1], Phase: []intercept.Phase{intercept.Before, intercept.After}}
		if s.Priority, err = units.ParsePriority(f[2]); err != nil {
			t.Fatal(err)
		}
		to := intercept.Webhook{URL: receiver.URL + "/" + s.Type, Secret: secret.Text(strings.Repeat("s", secret.MinSigning))}
		entries = append(entries, intercept.Entry{Settings: s, By: webhook.New(s.Name, to)})
	}
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Legacy, `{"content":[{"type":"text","text":"hi"}]}`), nil
	}
	r := newRig(t, mounted(b), intercepting(entries...))
	got := r.modern("1", "tools/call", `"name":"s__echo","arguments":{"text":"hello"}`)
	calls := b.seen(mcp.MethodToolsCall)
	if len(calls) != 1 {
		t.Fatalf("%d calls: %s", len(calls), got.text())
	}
	now := &txtar.Archive{Comment: archive.Comment, Files: []txtar.File{
		archive.Files[0],
		{Name: "posted", Data: seen.bodies.Bytes()},
		{Name: "delivered", Data: append(bytes.Clone(mcp.Lookup(calls[0].Params, "arguments")), '\n')},
		{Name: "answered", Data: append(bytes.TrimSpace([]byte(got.text())), '\n')},
	}}
	if *update {
		if err := os.WriteFile(file, txtar.Format(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, got := string(txtar.Format(archive)), string(txtar.Format(now)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
