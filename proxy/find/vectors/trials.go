package vectors

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// maxFailed is how many texts of a server are set aside in one attempt. The others of
	// that server wait for the next one.
	maxFailed = 16
	// firstRetry is how long a text that failed is left alone, twice as long after each
	// further time, and maxTries how often it is tried.
	firstRetry = 10 * time.Minute
	maxTries   = 5
)

// trial is what is known of a text that failed.
type trial struct {
	late  int       // how often the endpoint failed when it was asked for with others
	alone int       // how often it failed although the endpoint worked
	again time.Time // when it is tried again
	never bool      // it is not
}

// probe are the texts by which the endpoint is told from a text: where it has vectors for
// them, it works. Two of them, because batches have several.
var probe = []string{"tool", "list"}

// blame finds out why a batch failed. It returns an error where that is the endpoint's
// doing, and nil where it is that of a text in the batch.
func (m *model) blame(ctx context.Context, batch []missing, bad error) error {
	if r, ok := errors.AsType[*refused](bad); ok && r.status == http.StatusTooManyRequests {
		return bad
	}
	_, err := m.embed(ctx, probe)
	if err == nil {
		return nil
	}
	for i := range batch { // these come last in the next attempt
		t := m.trials[batch[i].key]
		t.late++
		m.trials[batch[i].key] = t
	}
	if r, ok := errors.AsType[*refused](err); ok && r.after > 0 {
		return err
	}
	return bad
}

// setAside notes that a text failed alone.
func (m *model) setAside(key string, bad error, now time.Time, wait time.Duration) {
	t := m.trials[key]
	t.alone++
	t.again = now.Add(wait << min(t.alone-1, maxTries))
	r, ok := errors.AsType[*refused](bad)
	t.never = t.alone >= maxTries || ok && r.ofTexts()
	m.trials[key] = t
}

// batches returns what to ask for at a time. Texts that failed come last, in small
// batches, and those that are to be left alone not at all.
func (m *model) batches(todo []missing, now time.Time) (list [][]missing) {
	todo = slices.DeleteFunc(slices.Clone(todo), func(of missing) bool {
		t := m.trials[of.key]
		return t.never || now.Before(t.again)
	})
	failed := func(of *missing) int { t := m.trials[of.key]; return t.late + maxBatch*t.alone }
	slices.SortStableFunc(todo, func(a, b missing) int {
		return cmp.Or(cmp.Compare(failed(&a), failed(&b)), strings.Compare(a.server, b.server))
	})
	for len(todo) > 0 {
		n, most := 1, maxBatch>>failed(&todo[0])
		for n < min(len(todo), most) && failed(&todo[n]) == failed(&todo[0]) {
			n++
		}
		list = append(list, todo[:n:n])
		todo = todo[n:]
	}
	return list
}

// later returns how long it is until a text of these is to be tried again, 0 for none.
func (m *model) later(left []missing, wait time.Duration) (first time.Duration) {
	for i := range left {
		t := m.trials[left[i].key]
		if t.never {
			continue
		}
		until := wait // of one that waits for others of its server
		if t.alone > 0 {
			until = max(time.Until(t.again), time.Millisecond)
		}
		if first == 0 || until < first {
			first = until
		}
	}
	return first
}
