package vectors

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolgate/toolgate/proxy/find"
)

// The bounds of what is asked while a search waits.
const (
	// queryTime is how long a search waits for the vector of its query.
	queryTime = 300 * time.Millisecond
	// maxQueries is how many vectors of queries are kept in memory.
	maxQueries = 1000
	// maxAsking is how many queries are asked for at once, and maxAskingOf how many of them
	// are of one principal.
	maxAsking   = 16
	maxAskingOf = 4
	// maxFailures is how many queries fail, one after the other, until the endpoint is
	// checked. If it does not work, none is asked for during restTime.
	maxFailures = 3
	restTime    = 30 * time.Second
)

// asked identifies a query. What a tenant asked is not used for another one: how fast an
// answer comes would tell.
type asked struct{ tenant, text string }

// queries makes vectors of queries, and keeps the latest. It is safe for concurrent use.
type queries struct {
	client *client
	// check asks the endpoint for something that no caller chose. It is called until ended.
	check func(context.Context) error
	ended context.Context

	mu       sync.Mutex
	known    map[asked]*list.Element // of entry
	recent   *list.List              // the latest first
	asking   int
	by       map[string]int // of asking, by principal
	failures int            // since the latest that worked
	checking bool
	rest     time.Time // until when nothing is asked for
	problem  error     // why nothing is; nil where the endpoint works
}

type entry struct {
	asked
	vector *vector
}

func newQueries(c *client) *queries {
	return &queries{client: c, known: map[asked]*list.Element{}, recent: list.New(), by: map[string]int{}}
}

// vector returns the vector of a query, nil where it is not there in time.
func (q *queries) vector(ctx context.Context, who find.Caller, text string) *vector {
	key := asked{who.Tenant, cut(text)}
	v, ask := q.look(key, who.Principal)
	if !ask {
		return v
	}
	defer q.done(who.Principal)
	within, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	vectors, err := q.client.embed(within, []string{key.text})
	if ctx.Err() != nil {
		return nil // its caller is gone, which says nothing of the endpoint
	}
	return q.keep(key, vectors, err)
}

// have returns the vector of a query that was asked before, nil for none.
func (q *queries) have(key asked) *vector {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.known[key]; e != nil {
		return e.Value.(*entry).vector
	}
	return nil
}

// look returns what is known of a query, and whether it may be asked for. If so, done has
// to be called.
func (q *queries) look(key asked, principal string) (v *vector, ask bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.known[key]; e != nil {
		q.recent.MoveToFront(e)
		return e.Value.(*entry).vector, false
	}
	if q.problem != nil {
		if time.Now().After(q.rest) {
			q.examine()
		}
		return nil, false
	}
	if q.asking >= maxAsking || q.by[principal] >= maxAskingOf {
		return nil, false
	}
	q.asking++
	q.by[principal]++
	return nil, true
}

func (q *queries) done(principal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asking--
	if q.by[principal]--; q.by[principal] == 0 {
		delete(q.by, principal)
	}
}

// keep takes the answer for a query.
func (q *queries) keep(key asked, vectors []*vector, err error) *vector {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := errors.AsType[*refused](err); ok && r.ofTexts() {
		return nil // which says nothing of what others ask
	}
	if err != nil {
		if q.failures++; q.failures >= maxFailures {
			q.examine()
		}
		return nil
	}
	q.failures = 0
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

// examine checks in the background whether the endpoint works. A caller whose queries fail
// says nothing of it, however many they are. mu is held.
func (q *queries) examine() {
	if q.checking || q.ended.Err() != nil {
		return
	}
	q.checking = true
	go func() {
		ctx, cancel := context.WithTimeout(q.ended, queryTime)
		defer cancel()
		err := q.check(ctx)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.checking, q.failures, q.problem = false, 0, err
		if err == nil {
			return
		}
		rest := restTime
		if r, ok := errors.AsType[*refused](err); ok {
			rest = max(rest, r.after)
		}
		q.rest = time.Now().Add(rest)
	}()
}

// wrong returns why queries are not asked for at the moment, nil where they are.
func (q *queries) wrong() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if errors.Is(q.problem, context.DeadlineExceeded) {
		return errors.New("the endpoint takes longer than " + queryTime.String() + " for a query")
	}
	return q.problem
}
