package vectors

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// The bounds of what is asked while a search waits.
const (
	// queryTime is how long a search waits for the vector of its query.
	queryTime = 300 * time.Millisecond
	// maxQueries is how many vectors of queries are kept in memory.
	maxQueries = 1000
	// maxAsking is how many queries are asked for at once.
	maxAsking = 8
	// maxFailures is how many queries fail, one after the other, until none is asked for
	// during restTime.
	maxFailures = 3
	restTime    = 30 * time.Second
)

// asked identifies a query. What a tenant asked is not used for another one: how fast an
// answer comes would tell.
type asked struct{ tenant, text string }

// queries makes vectors of queries, and keeps the latest. It is safe for concurrent use.
type queries struct {
	client *client
	slots  chan struct{}

	mu       sync.Mutex
	known    map[asked]*list.Element // of entry
	recent   *list.List              // the latest first
	failures int
	rest     time.Time // until when nothing is asked for
	problem  error     // of the latest that failed; nil after a success
}

type entry struct {
	asked
	vector *vector
}

func newQueries(c *client) *queries {
	return &queries{client: c, slots: make(chan struct{}, maxAsking), known: map[asked]*list.Element{}, recent: list.New()}
}

// vector returns the vector of a query, nil where it is not there in time.
func (q *queries) vector(ctx context.Context, tenant, text string) *vector {
	key := asked{tenant, cut(text)}
	v, ask := q.look(key)
	if !ask {
		return v
	}
	select {
	case q.slots <- struct{}{}:
		defer func() { <-q.slots }()
	default:
		return nil
	}
	within, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	vectors, err := q.client.embed(within, []string{key.text})
	if ctx.Err() != nil {
		return nil // its caller is gone, which says nothing of the endpoint
	}
	return q.keep(key, vectors, err)
}

// look returns what is known of a query, and whether it may be asked for.
func (q *queries) look(key asked) (v *vector, ask bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.known[key]; e != nil {
		q.recent.MoveToFront(e)
		return e.Value.(*entry).vector, false
	}
	if q.failures < maxFailures {
		return nil, true
	}
	now := time.Now()
	if now.Before(q.rest) {
		return nil, false
	}
	q.rest = now.Add(restTime) // one tries
	return nil, true
}

// keep takes the answer for a query.
func (q *queries) keep(key asked, vectors []*vector, err error) *vector {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := errors.AsType[*refused](err); ok && r.ofTexts() {
		return nil // which says nothing of what others ask
	}
	if err != nil {
		q.failures++
		q.rest, q.problem = time.Now().Add(restTime), err
		return nil
	}
	q.failures, q.problem = 0, nil
	if q.known[key] == nil {
		q.known[key] = q.recent.PushFront(&entry{key, vectors[0]})
	}
	for q.recent.Len() > maxQueries {
		last := q.recent.Back()
		delete(q.known, last.Value.(*entry).asked)
		q.recent.Remove(last)
	}
	return vectors[0]
}

// wrong returns why queries are not asked for at the moment, nil where they are.
func (q *queries) wrong() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.failures < maxFailures:
		return nil
	case errors.Is(q.problem, context.DeadlineExceeded):
		return errors.New("the endpoint takes longer than " + queryTime.String() + " for a query")
	}
	return q.problem
}
