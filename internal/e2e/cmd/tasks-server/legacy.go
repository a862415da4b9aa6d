package main

import (
	"context"
	"slices"
	"time"
)

// legacy answers a request of 2025-11-25 in its session.
func (s *server) legacy(ctx context.Context, sess *session, m *message, out stream) (object, *rpcError) {
	p := &m.params
	switch m.Method {
	case "initialize":
		return s.initialize(sess, p)
	case "ping":
		return object{}, nil
	}
	if sess.capabilities() == nil {
		if m.Method == "server/discover" {
			return nil, errorf(codeMethodNotFound, "method not found: %s", m.Method)
		}
		return nil, errorf(codeInvalidRequest, "%s before initialize", m.Method)
	}
	switch m.Method {
	case "tools/list":
		return object{"tools": listTools(true)}, nil
	case "tools/call":
		return s.legacyCall(ctx, sess, p, out)
	case "tasks/get":
		t, err := s.tasks.get(sess.id, p.TaskID)
		if err != nil {
			return nil, err
		}
		return s.legacyState(t), nil
	case "tasks/list":
		return s.legacyList(sess, p.Cursor)
	case "tasks/cancel":
		t, running, err := s.tasks.stop(sess.id, p.TaskID)
		if err != nil {
			return nil, err
		}
		if !running {
			return nil, errorf(codeInvalidParams, "cannot cancel the task: it is %s", legacyStatus(t))
		}
		return s.legacyState(t), nil
	case "tasks/result":
		return s.legacyResult(ctx, sess, p.TaskID, out)
	default:
		return nil, errorf(codeMethodNotFound, "method not found: %s", m.Method)
	}
}

// initialize opens the session, with the only version of this era here, whatever the
// client asks for.
func (s *server) initialize(sess *session, p *params) (object, *rpcError) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.client != nil {
		return nil, errorf(codeInvalidRequest, "already initialized")
	}
	sess.client = &clientCapabilities{}
	if p.Capabilities != nil {
		sess.client = p.Capabilities
	}
	return object{
		"protocolVersion": legacyVersion,
		"serverInfo":      serverInfo,
		"capabilities": object{
			"tools": object{},
			"tasks": object{
				"list": object{}, "cancel": object{},
				"requests": object{"tools": object{"call": object{}}},
			},
		},
	}, nil
}

// legacyCall calls a tool, as a task if the client says so.
func (s *server) legacyCall(ctx context.Context, sess *session, p *params, out stream) (object, *rpcError) {
	t, err := findTool(p.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case t.support == forbidden && p.Task != nil:
		return nil, errorf(codeMethodNotFound, "%s cannot run as a task", t.name)
	case t.support == required && p.Task == nil:
		return nil, errorf(codeMethodNotFound, "%s runs only as a task", t.name)
	}
	args, err := decode(p.Arguments)
	if err != nil {
		return nil, err
	}
	rounds := t.questions(args)
	if rounds != nil && !sess.capabilities().forms() {
		return nil, errorf(codeInvalidRequest, "%s asks the user, and this client declared no elicitation by form", t.name)
	}
	if p.Task != nil {
		ttl, err := s.legacyTTL(p.Task.TTL)
		if err != nil {
			return nil, err
		}
		tk, err := s.tasks.create(sess.id, ttl, t, args, nil)
		if err != nil {
			return nil, err
		}
		return object{"task": s.legacyState(tk)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	answers := map[string]answer{}
	for _, q := range slices.Concat(rounds...) {
		a, err := sess.ask(ctx, out, q, "")
		if err != nil {
			return nil, errorf(codeInternal, "%s was not answered: %v", q.key, err)
		}
		answers[q.key] = a
	}
	result, err := t.run(ctx, args, answers)
	if err != nil {
		return nil, err
	}
	return result.object(), nil
}

// legacyTTL is the lifetime of a task whose client asks for one.
func (s *server) legacyTTL(ms *float64) (time.Duration, *rpcError) {
	switch {
	case ms == nil:
		return s.ttl, nil
	case *ms < 1:
		return 0, errorf(codeInvalidParams, "invalid params: task.ttl must be at least 1 ms")
	case *ms >= float64(maxTTL.Milliseconds()):
		return maxTTL, nil
	default:
		return time.Duration(*ms) * time.Millisecond, nil
	}
}

// legacyStatus differs from the modern status for a tool's own error, which is a failure
// here.
func legacyStatus(t task) status {
	if t.status == completed && t.result.isError {
		return failed
	}
	return t.status
}

// legacyState is the Task of 2025-11-25.
func (s *server) legacyState(t task) object {
	o := object{
		"taskId": t.id, "status": legacyStatus(t),
		"createdAt": timestamp(t.created), "lastUpdatedAt": timestamp(t.updated),
		"ttl": t.ttl.Milliseconds(), "pollInterval": s.poll.Milliseconds(),
	}
	switch {
	case t.message != "":
		o["statusMessage"] = t.message
	case legacyStatus(t) == failed:
		o["statusMessage"] = t.result.text
	}
	return o
}

// legacyList returns a page of the session's tasks. The cursor names the last task of the
// previous page.
func (s *server) legacyList(sess *session, cursor string) (object, *rpcError) {
	all := s.tasks.list(sess.id)
	if cursor != "" {
		i := slices.IndexFunc(all, func(t task) bool { return t.id == cursor })
		if i < 0 {
			return nil, errorf(codeInvalidParams, "invalid cursor")
		}
		all = all[i+1:]
	}
	result := object{}
	if len(all) > pageSize {
		all = all[:pageSize]
		result["nextCursor"] = all[pageSize-1].id
	}
	states := []object{}
	for _, t := range all {
		states = append(states, s.legacyState(t))
	}
	result["tasks"] = states
	return result, nil
}

// legacyResult waits for the end of a task and returns the result of the call. On its
// stream it asks the user the questions of the task.
func (s *server) legacyResult(ctx context.Context, sess *session, id string, out stream) (object, *rpcError) {
	for {
		t, q, open, changed, err := s.tasks.claim(sess.id, id)
		if err != nil {
			return nil, err
		}
		if t.final() {
			return taskResult(t)
		}
		if open {
			if err := s.askForTask(ctx, sess, t, q, out); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errorf(codeInternal, "stopped: %v", context.Cause(ctx))
		}
	}
}

// askForTask asks the user a claimed question. If it is not answered, it can be claimed
// again.
func (s *server) askForTask(ctx context.Context, sess *session, t task, q question, out stream) *rpcError {
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	a, err := sess.ask(over, out, q, t.id)
	if err != nil {
		s.tasks.release(sess.id, t.id, q.key)
		if ctx.Err() != nil || over.Err() == nil {
			return errorf(codeInternal, "stopped: %v", err)
		}
		return nil // the task is over
	}
	return s.tasks.answer(sess.id, t.id, map[string]answer{q.key: a})
}

// taskResult is the result of the call, with its task.
func taskResult(t task) (object, *rpcError) {
	switch t.status {
	case completed:
		o := t.result.object()
		o["_meta"] = object{keyRelatedTask: object{"taskId": t.id}}
		return o, nil
	case failed:
		return nil, t.err
	default:
		return nil, errorf(codeTaskCancelled, "the task was cancelled")
	}
}

// statuses sends changes of the session's tasks, until ctx ends.
func (s *server) statuses(ctx context.Context, sess *session, out stream) error {
	return s.watch(ctx, out,
		func(t *task) bool { return t.owner == sess.id },
		func(t task) object { return notification("notifications/tasks/status", s.legacyState(t)) })
}
