//go:build !windows

package daemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/sdk"
)

// guardVar makes the program of the tests a plugin that looks at calls. It is the path of a
// file that it writes while a call whose arguments say so waits for it.
const guardVar = "TEST_GUARD"

// playGuard serves the plugin.
func playGuard(file string) {
	p := sdk.New("guard", "1.0.0")
	p.Intercept(func(ctx context.Context, inv *sdk.Invocation) (sdk.Verdict, error) {
		if bytes.Contains(inv.Payload, []byte("wait")) {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return sdk.Verdict{}, err
			}
			<-ctx.Done()
			return sdk.Verdict{}, ctx.Err()
		}
		return sdk.Verdict{Decision: sdk.Allow}, nil
	})
	p.Serve()
}

// deciding is the receiver of webhooks, which answers by a function.
func deciding(t *testing.T, decide func(r *http.Request, question map[string]any) map[string]any) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if answer := decide(r, q); answer != nil {
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// hook is an interceptor behind a webhook.
func hook(name, url string, more map[string]any) map[string]any {
	e := map[string]any{"name": name, "webhook": map[string]any{"url": url, "secret": strings.Repeat("s", 32)}}
	maps.Copy(e, more)
	return e
}

// A webhook that looks at definitions withholds one and annotates another, for everybody.
func TestInterceptedList(t *testing.T) {
	t.Parallel()
	url := deciding(t, func(_ *http.Request, q map[string]any) map[string]any {
		switch {
		case q["phase"] != "list" || q["method"] != "tools/list" || q["server"] != "a" || q["principal"] != nil || q["call"] != nil:
			t.Errorf("asked %v", q)
		case q["name"] == "a__pid":
			return map[string]any{"decision": "deny", "reason": "nobody needs it"}
		}
		return map[string]any{"decision": "allow", "note": "looked at"}
	})
	h := newHome(t)
	steps := func(name, call string) map[string]any {
		return map[string]any{"name": name, "type": "steps", "steps": []any{map[string]any{"id": "a", "call": call}}, "answer": "/a", "input_schema": properties("word")}
	}
	section := declaring(steps("numbers", "a__pid"), steps("pictures", "a__picture"))
	section["interceptors"] = []any{hook("lists", url, map[string]any{"phase": []string{"list"}, "match": []string{"a__pid", "a__echo"}})}
	h.write(t, servers{"a": fake()}, section)
	client := h.newRunning(t).client(t)
	list := func() string {
		all, err := client.All(t.Context(), mcp.Tool)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.Join(all, []byte("\n")))
	}
	testwait.Until(t, patience, "a definition that was looked at is listed", func() bool { return strings.Contains(list(), "a__echo") })
	if got := list(); strings.Contains(got, "a__pid") || !strings.Contains(got, `"dev.toolgate/notes":{"lists":"looked at"}`) || !strings.Contains(got, "a__picture") ||
		strings.Contains(got, "tools__numbers") || !strings.Contains(got, "tools__pictures") { // a tool whose part is withheld is not there either
		t.Errorf("listed\n%s", got)
	}
	if got := tried(t.Context(), client, "a__pid", "{}"); got == "ok" {
		t.Error("what is withheld is called")
	}
	if got := text(t, client, "a__echo", `{"text":"x"}`); !strings.Contains(got, "x") {
		t.Errorf("what is listed answers %q", got)
	}
}

// An interceptor that is slow, dead, or talks nonsense is decided about by on_error, for the
// calls that it matches alone.
func TestFaultyInterceptors(t *testing.T) {
	t.Parallel()
	slow := deciding(t, func(r *http.Request, _ map[string]any) map[string]any {
		<-r.Context().Done()
		return nil
	})
	nonsense := deciding(t, func(*http.Request, map[string]any) map[string]any { return map[string]any{"decision": "perhaps"} })
	for name, url := range map[string]string{"slow": slow, "nonsense": nonsense, "dead": "http://" + testport.Address(t)} {
		for onError, want := range map[string]string{"deny": "interceptor_unavailable", "skip": "ok"} {
			t.Run(name+" "+onError, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				h.write(t, servers{"a": fake()}, map[string]any{"interceptors": []any{hook("faulty", url, map[string]any{
					"match": []string{"a__pid"}, "timeout": "50ms", "on_error": onError,
				})}})
				client := h.newRunning(t).client(t)
				for range 7 { // more than its breaker lets through
					if got := tried(t.Context(), client, "a__pid", "{}"); got != want {
						t.Errorf("the call ended as %q, want %q", got, want)
					}
				}
				if got := tried(t.Context(), client, "a__echo", "{}"); got != "ok" {
					t.Errorf("a call that it does not match ended as %q", got)
				}
			})
		}
	}
}

// A plugin that is killed during a question fails that question, and is asked again when it
// has been started again.
func TestKilledInterceptor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(program)
	h := newHome(t)
	waits := h.path("waits")
	section := withNative(map[string]any{"plugins": map[string]any{"guard": map[string]any{
		"path": self, "sha256": hex.EncodeToString(hash[:]), "sandbox": "off", "env": map[string]string{guardVar: waits},
	}}}, nil)
	section["interceptors"] = []any{map[string]any{"name": "guards", "plugin": "guard", "timeout": "30s"}}
	h.write(t, servers{"a": fake()}, section)
	r := h.newRunning(t)
	client := r.client(t)
	if got := tried(t.Context(), client, "a__echo", "{}"); got != "ok" {
		t.Fatalf("a call ended as %q", got)
	}
	first := r.NativePID("guard")
	ended := make(chan string, 1)
	go func() { ended <- tried(t.Context(), client, "a__echo", `{"text":"wait"}`) }()
	testwait.Until(t, patience, "the plugin is asked", func() bool { _, err := os.Stat(waits); return err == nil })
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != "interceptor_unavailable" {
		t.Errorf("the call ended as %q", got)
	}
	testwait.Until(t, patience, "another process serves", func() bool { pid := r.NativePID("guard"); return pid != 0 && pid != first })
	if got := tried(t.Context(), client, "a__echo", `{"text":"again"}`); got != "ok" {
		t.Errorf("a call after it ended as %q", got)
	}
}
