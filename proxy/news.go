package proxy

import (
	"bytes"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// maxNews and maxNewsBytes bound what one server has said and nobody was told yet;
	// a single message may be of any size. Beyond that news are merged, see
	// [Gateway.merged].
	maxNews      = 256
	maxNewsBytes = 1 << 20
	// maxMerged bounds the state of a task that is kept beyond that, in bytes.
	maxMerged = 4 << 10
	// newsPatience is how long a server that has said something waits at most until
	// it is told: what it says before an answer comes to the client before that.
	newsPatience = 10 * time.Millisecond
)

// news is what servers said outside of calls, on its way to clients. The gate decides
// who may hear of it, which can take the time of a policy server. Each server has a
// queue of its own, so that nobody who reads answers from a server waits for that, and
// no server for what another one says. A queue has a goroutine as long as something is
// in it, which the gateway waits for when it ends.
type news struct {
	g      *Gateway
	mu     sync.Mutex
	closed bool
	queues map[string]*newsQueue // by server
}

// newsQueue is the news of one server.
type newsQueue struct {
	waiting []*newsItem // oldest first
	bytes   int
	latest  map[topic]*newsItem // that waits
	full    bool                // more came than there is room for, which is said once
}

// newsItem is something that a server said.
type newsItem struct {
	ev    mcp.Event
	topic topic
	told  chan struct{} // closed when whoever may hear of it has
}

// topic is what some news is about, and whose connection it came over. Where too much
// waits, later news take the place of earlier ones that are about the same.
type topic struct {
	principal, session, rights, conn string
	plain                            bool
	era                              mcp.Era
	method, about                    string // a resource or a task
}

func topicOf(ev *mcp.Event) topic {
	t := topic{ev.Principal, ev.Session, ev.Rights, ev.Conn, ev.Plain, ev.Era, ev.Method, ""}
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		t.about, _ = mcp.LookupString(ev.Params, "uri")
	case mcp.NotifyTaskStatus:
		t.about, _ = mcp.LookupString(ev.Params, "taskId")
	}
	return t
}

// Happened takes what a server said outside any call. It goes to whom it belongs, and
// to nobody when that cannot be told. Happened does not wait for who decides about
// that, but for a moment.
func (g *Gateway) Happened(ev mcp.Event) {
	if ev.Method == mcp.NotifyTaskStatus {
		if id, ok := mcp.LookupString(ev.Params, "taskId"); ok {
			g.tasks.legacy.saw(taskKey{taskPlace{ev.Server, ev.Conn}, id}, ev.Params)
		}
	}
	if !g.news.hasHearers(&ev) {
		return
	}
	told, ok := g.news.put(ev, false)
	if !ok {
		for _, ev := range g.news.merged(&ev) {
			g.news.put(ev, true)
		}
	}
	if told == nil {
		return
	}
	patience := time.NewTimer(newsPatience)
	defer patience.Stop()
	select {
	case <-told:
	case <-patience.C:
	}
}

// put adds some news, and tells whether there is room; there is for what was merged.
// The channel is closed when it is told. It is nil where others wait to be.
func (n *news) put(ev mcp.Event, merged bool) (told <-chan struct{}, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, true
	}
	q, waits := n.queues[ev.Server]
	switch {
	case !waits:
		q = &newsQueue{latest: make(map[topic]*newsItem)}
		n.queues[ev.Server] = q
		n.g.wg.Go(func() { n.tell(ev.Server, q) }) // ends when nothing waits
	case !merged && !q.room(len(ev.Params)):
		if !q.full {
			q.full = true
			n.g.log.Warn("a server says more than clients can be told in time; what it says of the same resource or task is merged, and other messages are dropped",
				"server", ev.Server)
		}
		return nil, false
	}
	it := q.add(ev, merged)
	if waits {
		return nil, true
	}
	return it.told, true
}

// room tells whether there is room for some news of so many bytes.
func (q *newsQueue) room(size int) bool {
	return len(q.waiting) == 0 || len(q.waiting) < maxNews && q.bytes+size <= maxNewsBytes
}

// add puts some news at the end, or where it was merged in the place of what waits of
// the same.
func (q *newsQueue) add(ev mcp.Event, merged bool) *newsItem {
	ev.Params = bytes.Clone(ev.Params) // and none of the message around them
	about := topicOf(&ev)
	q.bytes += len(ev.Params)
	if it := q.latest[about]; merged && it != nil {
		q.bytes -= len(it.ev.Params)
		it.ev = ev
		return it
	}
	it := &newsItem{ev: ev, topic: about, told: make(chan struct{})}
	q.waiting = append(q.waiting, it)
	q.latest[about] = it
	return it
}

// tell tells the news of a server until nothing waits.
func (n *news) tell(server string, q *newsQueue) {
	for it := n.take(server, q); it != nil; it = n.take(server, q) {
		n.g.news.relay(&it.ev)
		close(it.told)
	}
}

// take returns the oldest news of a server. Where there is none the queue is no more.
func (n *news) take(server string, q *newsQueue) *newsItem {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(n.queues, server)
		return nil
	}
	it := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.bytes -= len(it.ev.Params)
	if q.latest[it.topic] == it {
		delete(q.latest, it.topic)
	}
	return it
}

// close ends all queues: what waits is told to nobody.
func (n *news) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, q := range n.queues {
		for _, it := range q.waiting {
			close(it.told)
		}
		q.waiting = nil
	}
}

// merged returns what takes the place of some news for which there is no room: that
// the resources have changed which were subscribed to, or what has become of a task.
// There are as many as there are subscriptions and tasks. Other news are dropped.
func (n *news) merged(ev *mcp.Event) []mcp.Event {
	switch ev.Method {
	case mcp.NotifyTaskStatus:
		if len(ev.Params) <= maxMerged {
			return []mcp.Event{*ev}
		}
	case mcp.NotifyResourceUpdated:
		uri, _ := mcp.LookupString(ev.Params, "uri")
		whole := make(map[string]bool)
		var all []mcp.Event
		for _, c := range n.g.watches.concerned(ev, uri) {
			if whole[c.uri] {
				continue
			}
			whole[c.uri] = true
			one := *ev
			one.Params = append(append([]byte(`{"uri":`), mcp.Quote(c.uri)...), '}')
			all = append(all, one)
		}
		return all
	}
	return nil
}
