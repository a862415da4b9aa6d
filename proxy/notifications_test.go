package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// newSlow returns a rig whose gate takes a time to decide as soon as that is not zero,
// and a session of alice with its stream, which listens to messages and to a resource.
func newSlow(t *testing.T, backends ...*script) (r *rig, takes *atomic.Int64, session string, kept *recorder) {
	t.Helper()
	takes = new(atomic.Int64)
	r = newRig(t, mounted(backends...), func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(ctx context.Context, _ *gate.Request) (gate.Decision, error) {
			select {
			case <-time.After(time.Duration(takes.Load())):
			case <-ctx.Done():
			}
			return gate.Decision{Effect: gate.Allow}, ctx.Err()
		}))
	}).run()
	session = r.open()
	kept, _ = r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", session))
	r.legacy(session, "1", "logging/setLevel", `{"level":"info"}`)
	r.legacy(session, "2", "resources/subscribe", `{"uri":"s+file:///d/"}`)
	synctest.Wait()
	return r, takes, session, kept
}

func newsOf(server, method, params string) mcp.Event {
	return mcp.Event{Server: server, Principal: person("alice").Key(), Method: method, Params: []byte(params)}
}

func updateOf(uri string) mcp.Event {
	return newsOf("s", mcp.NotifyResourceUpdated, `{"uri":"`+uri+`"}`)
}

func messageOf(server, data string) mcp.Event {
	return newsOf(server, mcp.NotifyMessage, `{"level":"info","data":"`+data+`"}`)
}

// A reader of a server's messages does not wait for decisions on its notifications, and
// neither do notifications of other servers. All of them are relayed, in order.
func TestNotificationsDoNotBlockTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///d/","name":"d"}`)
		r, takes, _, kept := newSlow(t, b, newScript(t, "other", mcp.Legacy, tool("a")))
		began := time.Now()
		takes.Store(int64(time.Second))
		for i := range 5 {
			r.Happened(messageOf("s", fmt.Sprint("m", i)))
		}
		r.Happened(updateOf("file:///d/"))
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the reader waited %v", took)
		}
		r.Happened(messageOf("other", "beside"))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := kept.text(); !strings.Contains(got, "beside") || strings.Contains(got, "m1") {
			t.Errorf("after 1.5 s: %s", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		last := 0
		for _, word := range []string{`"m0"`, `"m1"`, `"m2"`, `"m3"`, `"m4"`, "resources/updated"} {
			at := strings.Index(kept.text(), word)
			if at < last {
				t.Fatalf("%s is missing, or out of its order: %s", word, kept.text())
			}
			last = at
		}
	})
}

// With quick decisions, a notification that a server sends before a response reaches
// the client before it.
func TestNotificationsComeBeforeResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("a"))
		r := newRig(t, mounted(b)).run()
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			if call.Method == mcp.MethodToolsCall {
				r.Happened(messageOf("s", "first"))
			}
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "logging/setLevel", `{"level":"info"}`))
		for range 20 {
			synctest.Wait()
			c.out.drain()
			c.send(request("2", "tools/call", `{"name":"s__a"}`))
			synctest.Wait()
			if got := c.out.drain(); !strings.Contains(got, "first") || strings.Index(got, "first") > strings.Index(got, `"id":2`) {
				t.Fatalf("told %s", got)
			}
		}
	})
}

// The queue is bounded. Beyond that, subscribed resources are reported as changed,
// tasks in their latest state, and messages are dropped. The last change is always
// reported.
func TestNotificationQueueIsBounded(t *testing.T) {
	for name, size := range map[string]int{"many": 10, "large": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///d/","name":"d"}`, `template {"uriTemplate":"file:///d/{x}","name":"t"}`)
				r, takes, _, kept := newSlow(t, b)
				takes.Store(int64(time.Second))
				pad := strings.Repeat("x", size)
				for i := range 2000 {
					r.Happened(messageOf("s", fmt.Sprint(i, pad)))
					r.Happened(updateOf(fmt.Sprintf("file:///d/%d%s", i, pad)))
				}
				r.notifications.mu.Lock()
				q := r.notifications.queues["s"]
				if len(q.waiting) > maxQueuedNotifications+1 || q.bytes > maxQueuedNotificationBytes+size+100 {
					t.Errorf("%d news of %d bytes wait", len(q.waiting), q.bytes)
				}
				r.notifications.mu.Unlock()
				takes.Store(0)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := kept.text(); strings.Count(got, `"params":{"uri":"s+file:///d/"}`) != 1 {
					t.Errorf("told %d times that the whole has changed", strings.Count(got, `"params":{"uri":"s+file:///d/"}`))
				}
				if n := strings.Count(r.log.String(), "sends notifications faster than they can be relayed"); n != 1 {
					t.Errorf("said %d times", n)
				}
				kept.next()
				r.Happened(messageOf("s", "later"))
				synctest.Wait()
				if got := kept.next(); !strings.Contains(got, "later") || len(r.notifications.queues) != 0 {
					t.Errorf("afterwards: %q, %d queues", got, len(r.notifications.queues))
				}
			})
		})
	}
}

// Notifications without recipients take no room, and a gateway that has ended relays
// nothing.
func TestNotificationsWithoutRecipients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///d/","name":"d"}`)
		r := newRig(t, mounted(b))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		session := r.open()
		for _, ev := range []mcp.Event{
			updateOf("file:///d/"), messageOf("s", "x"), newsOf("s", mcp.NotifyTaskStatus, `{"taskId":"1","status":"failed"}`),
			{Server: "s", Method: mcp.NotifyElicitComplete},
		} {
			if r.notifications.hasRecipients(&ev) {
				t.Errorf("%s has hearers", ev.Method)
			}
		}
		r.legacy(session, "2", "resources/subscribe", `{"uri":"s+file:///d/"}`)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if told, ok := r.notifications.put(updateOf("file:///d/"), false); told != nil || !ok || len(r.notifications.queues) != 0 {
			t.Errorf("after the end: %v, %t, %v", told, ok, r.notifications.queues)
		}
	})
}

// When too much waits, the latest short state of a task replaces earlier ones.
func TestTaskNotificationsAreMerged(t *testing.T) {
	r := newRig(t, nil)
	state := func(task, status, more string) mcp.Event {
		return newsOf("s", mcp.NotifyTaskStatus, `{"taskId":"`+task+`","status":"`+status+`","statusMessage":"`+more+`"}`)
	}
	q := notificationQueue{latest: make(map[topic]*queuedNotification)}
	q.add(state("1", "working", ""), false)
	q.add(state("2", "working", ""), false)
	for _, ev := range []mcp.Event{state("1", "input_required", ""), state("1", "completed", ""), state("2", "failed", strings.Repeat("x", maxMergedTaskBytes))} {
		for _, one := range r.notifications.merged(&ev) {
			q.add(one, true)
		}
	}
	var got []string
	size := 0
	for _, it := range q.waiting {
		status, _ := mcp.LookupString(it.ev.Params, "status")
		got = append(got, it.topic.about+" "+status)
		size += len(it.ev.Params)
	}
	if strings.Join(got, ", ") != "1 completed, 2 working" || q.bytes != size {
		t.Errorf("%q wait, %d bytes of which %d are counted", got, size, q.bytes)
	}
}
