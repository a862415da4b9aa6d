//go:build !windows

package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/findview"
)

// finding returns a client of the find view.
func (r *running) finding(t *testing.T, key string) *lineclient.Client {
	t.Helper()
	here, there := lineclient.NewPipe()
	if err := r.ServeStream(t.Context(), key, "find", there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	c := lineclient.New(here)
	c.Mute = true
	return c
}

// A gateway keeps searches that end in a call where the setting says so, learns from them
// when it is told to, and ranks by it where the setting says that.
func TestLearnsFromSearches(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("alice", "bob", "carol")
	use := func(mode string) {
		section["find"] = map[string]any{"learning": mode}
		h.write(t, servers{"a": fake("echo=Say a sentence again")}, section)
	}
	use("record")
	r := h.newRunning(t)
	clients := map[string]*lineclient.Client{"alice": r.finding(t, "alice"), "bob": r.finding(t, "bob"), "carol": r.finding(t, "carol")}
	call := func(who, tool, arguments string) string {
		t.Helper()
		got, err := clients[who].Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"`+tool+`","arguments":`+arguments+`}`))
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	search := func(who, query string) (found bool) {
		t.Helper()
		return strings.Contains(call(who, findview.FindTools, `{"query":"`+query+`"}`), `a__echo`)
	}
	for who := range clients {
		if !search(who, "echo congratulations to grandmother") {
			t.Fatal("nothing is found")
		}
		if got := call(who, findview.CallDestructive, `{"name":"a__echo","arguments":{"x":"y"}}`); !strings.Contains(got, `"content"`) {
			t.Fatal(got)
		}
	}
	control := r.Control
	var did []admin.Trained
	testwait.Until(t, 20*time.Second, "the searches", func() (ok bool) {
		var err error
		did, err = control.Train(context.Background(), admin.TrainQuestion{Callers: 3})
		if err != nil {
			t.Fatal(err)
		}
		return len(did) == 1 && did[0].Recorded == 3
	})
	if did[0].Tools != 1 || did[0].Callers != 3 || did[0].Tenant != "default" {
		t.Errorf("trained: %+v", did[0])
	}
	if search("alice", "congratulations") {
		t.Error("what was learned ranks without the word of the operator")
	}
	for _, learned := range []bool{true, false} {
		found, err := control.Find(t.Context(), admin.FindQuestion{Queries: []string{"congratulations"}, Limit: 8, As: "alice", Learned: &learned})
		if err != nil || (len(found.Rankings[0].Tools) > 0) != learned {
			text, _ := json.Marshal(found)
			t.Errorf("learned %v: %s, %v", learned, text, err)
		}
	}
	use("live")
	if _, err := r.TakeFile(false); err != nil {
		t.Fatal(err)
	}
	if pending := fmt.Sprint(r.Status().Pending); pending != "[find.learning]" || search("alice", "congratulations") {
		t.Errorf("a reload that nobody asked for ranks by what was learned; %s waits", pending)
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if !search("alice", "congratulations") {
		t.Error("what was learned does not rank")
	}
	forgotten, err := control.Forget(t.Context(), "default")
	if err != nil || forgotten.Pairs < 3 || search("alice", "congratulations") {
		t.Errorf("forgotten: %+v, %v", forgotten, err)
	}
	if _, err := control.Train(t.Context(), admin.TrainQuestion{}); err == nil {
		t.Error("nobody has to have called a tool")
	}
}
