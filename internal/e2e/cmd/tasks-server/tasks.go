package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"
)

type status string

const (
	working       status = "working"
	inputRequired status = "input_required"
	completed     status = "completed"
	failed        status = "failed"
	cancelled     status = "cancelled"
)

// A task is one running or finished call. Outside the store it is a copy.
type task struct {
	id      string
	owner   string // only requests of this owner find it
	created time.Time
	updated time.Time
	ttl     time.Duration
	status  status
	message string
	result  *toolResult // when completed
	err     *rpcError   // when failed
	open    []question  // when input is required: what is not answered yet
	version uint64      // grows with every change of any task

	answers map[string]answer
	asked   map[string]bool // open questions that a tasks/result puts to the user now
	ctx     context.Context // of its work; ends at the latest when the status is final
	stop    context.CancelFunc
}

func (t *task) final() bool {
	return t.status == completed || t.status == failed || t.status == cancelled
}

// A store keeps tasks until their time is over. At most max are kept, running
// ones and finished ones together; each runs on one goroutine that ends with
// its work, its time or the store.
type store struct {
	ctx    context.Context
	cancel context.CancelFunc
	max    int
	wg     sync.WaitGroup

	mu      sync.Mutex
	tasks   map[string]*task
	version uint64
	changed chan struct{} // closed at every change, and made anew
}

func newStore(limit int) *store {
	ctx, cancel := context.WithCancel(context.Background())
	return &store{ctx: ctx, cancel: cancel, max: limit, tasks: map[string]*task{}, changed: make(chan struct{})}
}

// close stops all work and waits for its end.
func (s *store) close() {
	s.cancel()
	s.wg.Wait()
}

// create keeps a new task for owner and starts its tool. What it returns is
// the task as it was before the tool began: working. Answers gathered before
// may be given; the rest of the rounds is asked in the task.
func (s *store) create(owner string, ttl time.Duration, tl *tool, args arguments, answers map[string]answer) (task, *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.tasks, func(_ string, t *task) bool { return t.expired(now) })
	if len(s.tasks) >= s.max || s.ctx.Err() != nil {
		return task{}, errorf(codeInternal, "no room for another task: %d are kept", len(s.tasks))
	}
	ctx, stop := context.WithDeadline(s.ctx, now.Add(ttl))
	t := &task{
		id: rand.Text(), owner: owner, created: now, ttl: ttl, status: working,
		answers: map[string]answer{}, ctx: ctx, stop: stop,
	}
	maps.Copy(t.answers, answers)
	s.tasks[t.id] = t
	s.touch(t)
	s.wg.Go(func() {
		defer stop()
		s.run(t, tl, args)
	})
	return *t, nil
}

func (t *task) expired(now time.Time) bool { return now.Sub(t.created) >= t.ttl }

// run asks what the tool wants to know, and runs it.
func (s *store) run(t *task, tl *tool, args arguments) {
	for _, round := range tl.questions(args) {
		if err := s.ask(t, round); err != nil {
			s.finish(t, nil, err)
			return
		}
	}
	s.mu.Lock()
	answers := maps.Clone(t.answers)
	s.mu.Unlock()
	result, err := tl.run(t.ctx, args, answers)
	s.finish(t, result, err)
}

// ask opens the questions of a round that have no answer yet and returns when
// all are answered, or the task is stopped.
func (s *store) ask(t *task, round []question) *rpcError {
	s.mu.Lock()
	if t.final() {
		s.mu.Unlock()
		return errorf(codeInternal, "the task is over")
	}
	t.open = slices.DeleteFunc(slices.Clone(round), func(q question) bool { _, ok := t.answers[q.key]; return ok })
	t.asked = map[string]bool{}
	if len(t.open) > 0 {
		t.status, t.message = inputRequired, "waiting for an answer"
		s.touch(t)
	}
	for len(t.open) > 0 {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-t.ctx.Done():
			return errorf(codeInternal, "stopped: %v", context.Cause(t.ctx))
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	return nil
}

// finish sets the final status, unless the task has one already.
func (s *store) finish(t *task, result *toolResult, err *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.final():
	case err != nil:
		t.err = err
		s.end(t, failed, err.Message)
	default:
		t.result = result
		s.end(t, completed, "")
	}
}

// end makes a status final. The caller holds the lock.
func (s *store) end(t *task, st status, message string) {
	t.status, t.message, t.open = st, message, nil
	s.touch(t)
	t.stop()
}

// touch marks t as changed. The caller holds the lock.
func (s *store) touch(t *task) {
	s.version++
	t.version, t.updated = s.version, time.Now()
	s.wake()
}

// wake lets everybody who waits look again. The caller holds the lock.
func (s *store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// find gives the task that owner calls id. The caller holds the lock. Somebody
// else's task, one whose time is over and one that never was are the same.
func (s *store) find(owner, id string) (*task, *rpcError) {
	t := s.tasks[id]
	if t == nil || t.owner != owner || t.expired(time.Now()) {
		return nil, errorf(codeInvalidParams, "task not found, or expired")
	}
	return t, nil
}

func (s *store) get(owner, id string) (task, *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(owner, id)
	if err != nil {
		return task{}, err
	}
	return *t, nil
}

// answer takes answers to open questions; those to others are ignored. With the
// last one the task works again.
func (s *store) answer(owner, id string, answers map[string]answer) *rpcError {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(owner, id)
	if err != nil {
		return err
	}
	var left, answered []question
	for _, q := range t.open {
		switch a, ok := answers[q.key]; {
		case !ok:
			left = append(left, q)
		case !a.valid():
			return errorf(codeInvalidParams, "the answer to %q is not a result of elicitation/create", q.key)
		default:
			answered = append(answered, q)
		}
	}
	if len(answered) == 0 {
		return nil
	}
	for _, q := range answered {
		t.answers[q.key] = answers[q.key]
	}
	t.open = left
	if len(left) == 0 {
		t.status, t.message = working, ""
	}
	s.touch(t)
	return nil
}

// stop cancels a task. It reports whether the task was still running.
func (s *store) stop(owner, id string) (task, bool, *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(owner, id)
	if err != nil {
		return task{}, false, err
	}
	if t.final() {
		return *t, false, nil
	}
	s.end(t, cancelled, "cancelled by request")
	return *t, true, nil
}

// forget stops and drops all tasks of an owner.
func (s *store) forget(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.tasks {
		if t.owner == owner {
			if !t.final() {
				s.end(t, cancelled, "its session has ended")
			}
			delete(s.tasks, id)
		}
	}
}

// list gives the tasks of an owner, the oldest first.
func (s *store) list(owner string) []task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []task
	for _, t := range s.tasks {
		if t.owner == owner && !t.expired(time.Now()) {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b task) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.id, b.id))
	})
	return all
}

// since gives the tasks that match and have changed after a version, in the
// order of their changes, the version up to which that is all, and a channel
// that the next change closes. Who is slow sees the newest state of a task and
// not the ones between: nothing is queued.
func (s *store) since(version uint64, match func(*task) bool) ([]task, uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var news []task
	for _, t := range s.tasks {
		if t.version > version && match(t) {
			news = append(news, *t)
		}
	}
	slices.SortFunc(news, func(a, b task) int { return cmp.Compare(a.version, b.version) })
	return news, s.version, s.changed
}

// claim hands out an open question that nobody puts to the user yet, for one
// who can. The channel is closed at the next change.
func (s *store) claim(owner, id string) (t task, q question, ok bool, changed <-chan struct{}, err *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(owner, id)
	if err != nil {
		return task{}, question{}, false, nil, err
	}
	for _, q := range found.open {
		if !found.asked[q.key] && found.ctx.Err() == nil {
			found.asked[q.key] = true
			return *found, q, true, s.changed, nil
		}
	}
	return *found, question{}, false, s.changed, nil
}

// release gives a claimed question back: it was not answered.
func (s *store) release(owner, id, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, err := s.find(owner, id); err == nil && !t.final() {
		delete(t.asked, key)
		s.wake()
	}
}
