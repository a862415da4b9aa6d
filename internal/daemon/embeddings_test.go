//go:build !windows

package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

// TestEmbeddings finds by vectors once a person has taken over the endpoint, sends it
// nothing before and nothing afterwards, and says when it fails.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	var asked, down atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || down.Load() != 0 {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		vectors := make([]string, len(in.Input))
		for i, text := range in.Input {
			vectors[i] = `{"embedding":[1,0.1]}`
			if strings.Contains(text, "Paints") || text == "xylograph" {
				vectors[i] = `{"embedding":[0.1,1]}`
			}
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(vectors, ","))
	}))
	defer endpoint.Close()
	h := newHome(t)
	settings := withKeys("alice")
	names := servers{"a": fake("echo=Paints a portrait.", "pid=Says a number.", "env=Reads a variable.", "sleep=Waits.")}
	h.write(t, names, settings)
	r := h.newRunning(t)
	r.settle(t)
	found := func() bool { return strings.Contains(r.searched(t, "alice", "xylograph"), "a__echo") }
	if found() {
		t.Fatal("the words find it")
	}
	settings["find"] = map[string]any{"embeddings": map[string]any{"url": endpoint.URL + "/v1", "model": "m"}}
	h.write(t, names, settings)
	if _, err := r.TakeFile(false); err != nil {
		t.Fatal(err)
	}
	if found() || asked.Load() != 0 || fmt.Sprint(r.Status().Pending) != "[find.embeddings]" {
		t.Errorf("an endpoint that nobody has accepted was asked %d times; %v wait", asked.Load(), r.Status().Pending)
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the vectors", found)
	if alarms := r.Status().Alarms; alarms != nil {
		t.Errorf("alarms: %v", alarms)
	}
	down.Store(1)
	for _, query := range []string{"one", "two", "three"} {
		r.searched(t, "alice", query)
	}
	testwait.Until(t, patience, "the alarm", func() bool {
		return strings.Contains(strings.Join(r.Status().Alarms, "; "), "find.embeddings: vectors of queries are missing")
	})
	delete(settings, "find")
	h.write(t, names, settings)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	if found() || r.Status().Alarms != nil || asked.Load() != before {
		t.Error("an endpoint that is gone is asked")
	}
}
