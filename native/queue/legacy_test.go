package queue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/queue"
)

// old asks as a client of 2025-11-25 does.
func old(b *queue.Backend, principal, method, params string) string {
	got, err := b.Call(context.Background(), &mcp.Call{Method: method, Params: []byte(params), Principal: principal})
	switch {
	case err != nil:
		return err.Error()
	case got.Fault != nil:
		return got.Fault.Message
	}
	return string(got.Result)
}

func oldTask(t *testing.T, b *queue.Backend, principal, what string) string {
	t.Helper()
	got := old(b, principal, mcp.MethodToolsCall, `{"name":"slow","arguments":{"what":"`+what+`"},"task":{"ttl":1000}}`)
	id, _ := mcp.LookupString([]byte(got), "task", "taskId")
	if status, _ := mcp.LookupString([]byte(got), "task", "status"); id == "" || status != "working" || strings.Contains(got, "resultType") {
		t.Fatalf("made %s", got)
	}
	return id
}

// A call that asks for a task in the way of 2025-11-25 becomes one of that kind.
func TestLegacyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, _ := on(queue.Limits{Settings: queue.Settings{Workers: 4, Waiting: 10, WaitingPerPrincipal: 10, Keep: time.Minute}, Each: 4})
		done, fault, failed := oldTask(t, b, "me", ""), oldTask(t, b, "me", "fault"), oldTask(t, b, "me", "says no")
		status := func(id string) string {
			got := old(b, "me", mcp.MethodTaskGet, `{"taskId":"`+id+`"}`)
			s, ok := mcp.LookupString([]byte(got), "status")
			if !ok {
				return got
			}
			return s
		}
		result := func(id string) string { return old(b, "me", mcp.MethodTaskResult, `{"taskId":"`+id+`"}`) }
		if got := result(done); status(done) != "working" || !strings.Contains(got, "not ended") {
			t.Errorf("%s, %s", status(done), got)
		}
		time.Sleep(2 * time.Second)
		for id, want := range map[string][2]string{
			done: {"completed", `{"content":[]}`}, fault: {"failed", "a fault"}, failed: {"failed", `{"content":[],"isError":true}`},
		} {
			if got := [2]string{status(id), result(id)}; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		stopped := oldTask(t, b, "me", "")
		synctest.Wait()
		if got := old(b, "me", mcp.MethodTaskCancel, `{"taskId":"`+stopped+`"}`); !strings.Contains(got, `"status":"cancelled"`) {
			t.Errorf("cancelled: %s", got)
		}
		synctest.Wait()
		if got := status(stopped) + " " + result(stopped); got != "cancelled The task was cancelled" {
			t.Error(got)
		}
		for _, id := range []string{done, stopped} {
			if got := old(b, "me", mcp.MethodTaskCancel, `{"taskId":"`+id+`"}`); !strings.Contains(got, "already") {
				t.Errorf("cancelled again: %s", got)
			}
		}
		oldTask(t, b, "you", "")
		list := old(b, "me", mcp.MethodTaskList, `{}`)
		at := -1
		for _, id := range []string{done, stopped} {
			if next := strings.Index(list, id); next <= at {
				t.Errorf("%s: not in their order", list)
			} else {
				at = next
			}
		}
		if n := strings.Count(list, "taskId"); n != 4 {
			t.Errorf("%d tasks listed: %s", n, list)
		}
		// Those of one kind are unknown to the other, and each caller has its own.
		modern, err := made(b, "me", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{
			status(modern), result(modern), about(b, "me", mcp.MethodTaskGet, done), about(b, "me", mcp.MethodTaskResult, done),
			old(b, "you", mcp.MethodTaskGet, `{"taskId":"`+done+`"}`), old(b, "you", mcp.MethodTaskCancel, `{"taskId":"`+done+`"}`),
		} {
			if got != "Unknown task" {
				t.Error(got)
			}
		}
		if got := old(b, "me", mcp.MethodToolsCall, `{"name":"quick","task":{}}`); !strings.Contains(got, "does not run as a task") {
			t.Errorf("a tool that is not queued: %s", got)
		}
		l, _ := b.Listing()
		if got := string(l.Items[mcp.Tool][0].Raw); !strings.Contains(got, `"execution":{"taskSupport":"optional"}`) || !l.Declares("tasks", "requests", "tools", "call") {
			t.Errorf("listed %s, %s", got, l.Capabilities)
		}
		time.Sleep(2 * time.Second)
	})
}
