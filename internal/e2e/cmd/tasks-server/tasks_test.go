package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStoreLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(2)
		defer s.close()
		slow, _ := findTool("slow_compute")
		first, _ := s.create("a", time.Second, slow, arguments{Seconds: 30}, nil)
		second, err := s.create("a", time.Minute, slow, arguments{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.create("a", time.Minute, slow, arguments{}, nil); err == nil {
			t.Error("a third task was taken")
		}
		if _, err := s.get("b", second.id); err == nil {
			t.Error("somebody else finds a task")
		}
		<-time.After(time.Second) // the work of the first is stopped, and it gives its place
		synctest.Wait()
		if _, err := s.get("a", first.id); err == nil {
			t.Error("a task is found after its time")
		}
		third, err := s.create("a", time.Minute, slow, arguments{Seconds: 30}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.list("a"); len(got) != 2 || got[0].id != second.id || got[1].id != third.id {
			t.Errorf("list: %v", got)
		}
		s.close()
		if got, _ := s.get("a", third.id); got.status != failed {
			t.Errorf("a task of a store that has ended: %v", got.status)
		}
		if _, err := s.create("a", time.Minute, slow, arguments{}, nil); err == nil {
			t.Error("a store that has ended takes a task")
		}
	})
}

// Whatever is done to tasks in whatever order, their states follow the paths
// that both revisions allow, one that is final stays, and questions are open
// exactly while input is required.
func TestStatePaths(t *testing.T) {
	allowed := map[status][]status{
		working:       {working, inputRequired, completed, failed, cancelled},
		inputRequired: {inputRequired, working, completed, failed, cancelled},
		completed:     {completed}, failed: {failed}, cancelled: {cancelled},
	}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			s := newStore(20)
			defer s.close()
			var mu sync.Mutex
			last := map[string]task{}
			look := func() {
				mu.Lock()
				defer mu.Unlock()
				for _, now := range s.list("a") {
					before, ok := last[now.id]
					if !ok {
						before.status = working
					}
					found := false
					for _, next := range allowed[before.status] {
						found = found || next == now.status
					}
					if !found || now.version < before.version {
						t.Errorf("seed %d: from %s to %s", seed, before.status, now.status)
					}
					if (len(now.open) > 0) != (now.status == inputRequired) {
						t.Errorf("seed %d: %s with %d open questions", seed, now.status, len(now.open))
					}
					if (now.result != nil) != (now.status == completed) || (now.err != nil) != (now.status == failed) {
						t.Errorf("seed %d: %s with result %v, error %v", seed, now.status, now.result, now.err)
					}
					last[now.id] = now
				}
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for range 30 {
						mu.Lock()
						act, pick, pause := r.IntN(5), r.IntN(len(tools)), time.Duration(r.IntN(200))*time.Millisecond
						mu.Unlock()
						all := s.list("a")
						var one task
						if len(all) > 0 {
							one = all[pick%len(all)]
						}
						switch act {
						case 0:
							_, _ = s.create("a", time.Second, &tools[pick], arguments{Seconds: 0.1}, nil)
						case 1:
							_ = s.answer("a", one.id, map[string]answer{"name": {Action: "accept"}, "confirm": {Action: "decline"}, "first_name": {Action: "cancel"}})
						case 2:
							_ = s.answer("a", one.id, map[string]answer{"city": {Action: "accept"}, "last_name": {}})
						case 3:
							_, _, _ = s.stop("a", one.id)
						case 4:
							if got, q, ok, _, _ := s.claim("a", one.id); ok {
								s.release("a", got.id, q.key)
							}
						}
						look()
						<-time.After(pause)
					}
				})
			}
			wg.Wait()
		})
	}
}

// since must lose no last state, whoever is slow.
func TestSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(50)
		defer s.close()
		slow, _ := findTool("slow_compute")
		ctx, cancel := context.WithCancel(t.Context())
		seen := map[string]status{}
		var wg sync.WaitGroup
		wg.Go(func() {
			var version uint64
			for {
				news, now, changed := s.since(version, func(t *task) bool { return t.owner == "a" })
				for _, tk := range news {
					if tk.version <= version || tk.version > now {
						t.Errorf("version %d between %d and %d", tk.version, version, now)
					}
					seen[tk.id] = tk.status
				}
				version = now
				select {
				case <-changed:
					<-time.After(7 * time.Millisecond)
				case <-ctx.Done():
					return
				}
			}
		})
		for i := range 40 {
			_, _ = s.create([]string{"a", "b"}[i%2], time.Minute, slow, arguments{Seconds: float64(i) / 100}, nil)
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Second)
		cancel()
		wg.Wait()
		if len(seen) != 20 {
			t.Errorf("%d tasks were seen, want 20", len(seen))
		}
		for id, st := range seen {
			if st != completed {
				t.Errorf("%s was last seen %s", id, st)
			}
		}
	})
}

// A full server refuses, and starts nothing.
func TestTooManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := overStdio(t, testServer())
		c := modernClient(t, p, withTasks)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range maxInFlight {
			wg.Go(func() { _, _ = c.peer.call(ctx, "subscriptions/listen", modernMeta(object{})) })
		}
		synctest.Wait()
		if _, err := p.call(t.Context(), "tools/list", modernMeta(object{})); err == nil || err.Code != codeInternal {
			t.Errorf("one request too many: %v", err)
		}
		cancel()
		wg.Wait()
		synctest.Wait()
		if _, err := p.call(t.Context(), "tools/list", modernMeta(object{})); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
	})
}

func modernMeta(params object) object {
	params["_meta"] = object{keyVersion: modernVersion, keyCapabilities: withTasks}
	return params
}

// Whatever comes in, every line that goes out is one JSON-RPC message, and
// every request with an id is answered exactly once.
func FuzzStdio(f *testing.F) {
	meta := `"_meta":{"` + keyVersion + `":"` + modernVersion + `","` + keyCapabilities + `":{"extensions":{"` + tasksExtension + `":{}},"elicitation":{}}}`
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"multi_input",` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_tool_with_task","requestState":"a.b","inputResponses":{"user_name":7},` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["x"]},` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":{}}}}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"confirm_delete","task":{"ttl":1e300}}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
		`[]`, `{}`, `null`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer("both", 5, time.Second, time.Second)
			defer s.tasks.close()
			var out strings.Builder
			err := s.serveStdio(t.Context(), strings.NewReader(in), &out)
			if err != nil && len(in) < maxMessage {
				t.Fatal(err)
			}
			answered := map[string]int{}
			for line := range strings.Lines(out.String()) {
				var m object
				if err := json.Unmarshal([]byte(line), &m); err != nil || m["jsonrpc"] != "2.0" {
					t.Fatalf("%q: %v", line, err)
				}
				if m["method"] == nil && m["id"] != nil {
					answered[fmt.Sprintf("%T %v", m["id"], m["id"])]++
				}
			}
			asked, cancels := map[string]int{}, false
			for line := range strings.Lines(in) {
				m, _ := parse([]byte(strings.TrimSuffix(line, "\n")))
				if m == nil || m.Method == "" || m.ID == nil {
					cancels = cancels || m != nil && m.Method == "notifications/cancelled"
					continue
				}
				var id any
				_ = json.Unmarshal(m.ID, &id)
				asked[fmt.Sprintf("%T %v", id, id)]++
			}
			for id, n := range asked {
				if got := answered[id]; got > n || got < n && !cancels {
					t.Errorf("%s was answered %d times, and asked %d times", id, got, n)
				}
			}
			for id := range answered {
				if asked[id] == 0 {
					t.Errorf("%s was answered, and never asked", id)
				}
			}
		})
	})
}
