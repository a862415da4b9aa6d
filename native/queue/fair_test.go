package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/queue"
)

// A caller who asks for everything leaves a worker to others, and who comes later
// does not wait for all that the first has asked for.
func TestFairWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, s := on(queue.Limits{Settings: queue.Settings{Workers: 4, Waiting: 100, WaitingPerPrincipal: 50}})
		for range 20 {
			if _, err := made(b, "greedy", ""); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if calls, _ := s.counts(); calls != 3 {
			t.Errorf("%d calls of one caller run, of 4 workers", calls)
		}
		var others []string
		for _, who := range []string{"a", "b", "a", "b"} {
			id, err := made(b, who, "")
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, id)
		}
		time.Sleep(3500 * time.Millisecond)
		for i, id := range others {
			if got := about(b, []string{"a", "b"}[i%2], mcp.MethodTaskGet, id); got != `completed{"content":[]}` {
				t.Errorf("call %d of the others: %s", i, got)
			}
		}
		time.Sleep(10 * time.Second)
		if calls, most := s.counts(); calls != 24 || most != 4 {
			t.Errorf("%d calls, %d at once", calls, most)
		}
	})
}

// One worker serves everybody, in turn.
func TestFairWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, _ := on(queue.Limits{Settings: queue.Settings{Workers: 1, Waiting: 100, WaitingPerPrincipal: 50}})
		for range 5 {
			if _, err := made(b, "greedy", ""); err != nil {
				t.Fatal(err)
			}
		}
		id, err := made(b, "a", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6500 * time.Millisecond)
		if got := about(b, "a", mcp.MethodTaskGet, id); got != `completed{"content":[]}` {
			t.Error(got)
		}
	})
}

// Whoever makes many or large results pushes out their own.
func TestFairResults(t *testing.T) {
	for _, limits := range []queue.Limits{{Kept: 6}, {KeptBytes: 3500}} {
		synctest.Test(t, func(t *testing.T) {
			limits.Workers, limits.Waiting, limits.WaitingPerPrincipal = 4, 100, 50
			_, b, _ := on(limits)
			modest, err := made(b, "modest", "")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			var last string
			for range 20 {
				if last, err = made(b, "greedy", "large"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(20 * time.Second)
			if got := about(b, "modest", mcp.MethodTaskGet, modest); got != `completed{"content":[]}` {
				t.Errorf("%+v: %s", limits, got)
			}
			if got := about(b, "greedy", mcp.MethodTaskGet, last); got == "Unknown task" {
				t.Errorf("%+v: the newest is gone", limits)
			}
		})
	}
}
