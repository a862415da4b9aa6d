package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// modernOwner owns the tasks of the modern era. The era has no sessions, and this server
// knows no users: whoever has the id of a task has the task, and the id cannot be guessed
// (SEP-2663, "Security Implications"). A server with authorization would use the caller
// here.
const modernOwner = ""

// modern answers a request of 2026-07-28.
func (s *server) modern(ctx context.Context, m *message, out stream) (object, *rpcError) {
	p := &m.params
	if p.Meta.Version == nil || p.Meta.Capabilities == nil {
		return nil, errorf(codeInvalidParams, "invalid params: _meta needs %s (%s here) and %s", keyVersion, modernVersion, keyCapabilities)
	}
	if *p.Meta.Version != modernVersion {
		err := errorf(codeUnsupportedVersion, "unsupported protocol version")
		err.Data = object{"supported": []string{modernVersion}, "requested": *p.Meta.Version}
		return nil, err
	}
	switch m.Method {
	case "server/discover":
		return s.complete(object{
			"supportedVersions": []string{modernVersion},
			"capabilities":      object{"tools": object{}, "extensions": object{tasksExtension: object{}}},
			"ttlMs":             60_000, "cacheScope": "public",
		}), nil
	case "tools/list":
		return s.complete(object{"tools": listTools(false), "ttlMs": 60_000, "cacheScope": "public"}), nil
	case "tools/call":
		return s.modernCall(ctx, p)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return s.modernTask(m)
	case "subscriptions/listen":
		return s.listen(ctx, m, out)
	default:
		return nil, errorf(codeMethodNotFound, "method not found: %s", m.Method)
	}
}

// complete makes a result from its members.
func (s *server) complete(result object) object { return finished(result, "complete") }

func finished(result object, resultType string) object {
	result["resultType"] = resultType
	result["_meta"] = object{keyServerInfo: serverInfo}
	return result
}

// modernCall calls a tool. Only the server decides whether that makes a task; a client
// can only say that it supports tasks.
func (s *server) modernCall(ctx context.Context, p *params) (object, *rpcError) {
	t, err := findTool(p.Name)
	if err != nil {
		return nil, err
	}
	args, err := decode(p.Arguments)
	if err != nil {
		return nil, err
	}
	client := p.Meta.Capabilities
	rounds := t.questions(args)
	if err := require(t.support == required && !client.tasks(), rounds != nil && !client.forms()); err != nil {
		return nil, err
	}
	asTask := t.support != forbidden && client.tasks()

	var answers map[string]answer
	if !asTask || t.asksFirst {
		var open []question
		if answers, open, err = s.gather(t, args, rounds, p); err != nil {
			return nil, err
		}
		if len(open) > 0 {
			return finished(object{
				"inputRequests": inputRequests(open),
				"requestState":  s.seal(t, args, answers),
			}, "input_required"), nil
		}
	}
	if asTask {
		tk, err := s.tasks.create(modernOwner, s.ttl, t, args, answers)
		if err != nil {
			return nil, err
		}
		return finished(s.modernState(tk), "task"), nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	result, err := t.run(ctx, args, answers)
	if err != nil {
		return nil, err
	}
	return s.complete(result.object()), nil
}

// require refuses a client that did not declare what the call needs.
func require(tasks, forms bool) *rpcError {
	needs := object{}
	if tasks {
		needs["extensions"] = object{tasksExtension: object{}}
	}
	if forms {
		needs["elicitation"] = object{}
	}
	if len(needs) == 0 {
		return nil
	}
	err := errorf(codeMissingCapability, "missing required client capability")
	err.Data = object{"requiredCapabilities": needs}
	return err
}

// gather collects the answers of a multi-round-trip call: those of earlier rounds are in
// its requestState, those of the last round in its inputResponses. It returns the open
// questions of the first incomplete round; none if all rounds are complete.
func (s *server) gather(t *tool, args arguments, rounds [][]question, p *params) (map[string]answer, []question, *rpcError) {
	answers := map[string]answer{}
	if p.RequestState != "" {
		var err *rpcError
		if answers, err = s.unseal(t, args, p.RequestState); err != nil {
			return nil, nil, err
		}
	}
	taken := false // responses answer one round, not those after it
	for _, round := range rounds {
		var open []question
		responses := p.InputResponses
		if taken {
			responses = nil
		}
		for _, q := range round {
			a, ok := responses[q.key]
			switch _, known := answers[q.key]; {
			case known:
			case !ok:
				open = append(open, q)
			case !a.valid():
				return nil, nil, errorf(codeInvalidParams, "the answer to %q is not a result of elicitation/create", q.key)
			default:
				answers[q.key] = a
				taken = true
			}
		}
		if len(open) > 0 {
			return answers, open, nil
		}
	}
	return answers, nil, nil
}

// modernTask answers the three methods of the extension.
func (s *server) modernTask(m *message) (object, *rpcError) {
	if err := require(!m.params.Meta.Capabilities.tasks(), false); err != nil {
		return nil, err
	}
	id := m.params.TaskID
	switch m.Method {
	case "tasks/get":
		t, err := s.tasks.get(modernOwner, id)
		if err != nil {
			return nil, err
		}
		return s.complete(s.modernState(t)), nil
	case "tasks/update":
		if err := s.tasks.answer(modernOwner, id, m.params.InputResponses); err != nil {
			return nil, err
		}
	default: // tasks/cancel: what has ended already stays as it is
		if _, _, err := s.tasks.stop(modernOwner, id); err != nil {
			return nil, err
		}
	}
	return s.complete(object{}), nil
}

// modernState is the DetailedTask of SEP-2663.
func (s *server) modernState(t task) object {
	o := object{
		"taskId": t.id, "status": t.status,
		"createdAt": timestamp(t.created), "lastUpdatedAt": timestamp(t.updated),
		"ttlMs": t.ttl.Milliseconds(), "pollIntervalMs": s.poll.Milliseconds(),
	}
	if t.message != "" {
		o["statusMessage"] = t.message
	}
	switch t.status {
	case inputRequired:
		o["inputRequests"] = inputRequests(t.open)
	case completed:
		o["result"] = t.result.object()
	case failed:
		o["error"] = t.err
	default:
	}
	return o
}

// listen streams the states of the tasks that the client names, until the client ends it.
// It returns the result with which the server ends the stream.
func (s *server) listen(ctx context.Context, m *message, out stream) (object, *rpcError) {
	wanted := m.params.Notifications.TaskIDs
	if err := require(wanted != nil && !m.params.Meta.Capabilities.tasks(), false); err != nil {
		return nil, err
	}
	meta := object{keySubscription: m.ID}
	agreed := object{}
	ids := map[string]bool{}
	if wanted != nil {
		known := []string{}
		for _, id := range wanted {
			if _, err := s.tasks.get(modernOwner, id); err == nil && !ids[id] {
				ids[id] = true
				known = append(known, id)
			}
		}
		agreed["taskIds"] = known
	}
	ack := notification("notifications/subscriptions/acknowledged", object{"_meta": meta, "notifications": agreed})
	if err := out.send(ack); err != nil {
		return nil, errorf(codeInternal, "the client is gone: %v", err)
	}
	err := s.watch(ctx, out,
		func(t *task) bool { return t.owner == modernOwner && ids[t.id] },
		func(t task) object {
			params := s.modernState(t)
			params["_meta"] = meta
			return notification("notifications/tasks", params)
		})
	if ctx.Err() == nil {
		return nil, errorf(codeInternal, "the client is gone: %v", err)
	}
	return object{"resultType": "complete", "_meta": meta}, nil
}

// requestState carries the answers of earlier rounds of a call, so that the server stores
// none. It is bound to the tool and the arguments, lives as long as a call may, and is
// refused if it was changed.
type requestState struct {
	Tool    string            `json:"tool"`
	Args    arguments         `json:"args"`
	Answers map[string]answer `json:"answers"`
	Until   time.Time         `json:"until"`
}

func (s *server) seal(t *tool, args arguments, answers map[string]answer) string {
	data, err := json.Marshal(requestState{t.name, args, answers, time.Now().Add(maxCall)})
	if err != nil {
		return "" // not reached: all of it came from JSON
	}
	return encode(data) + "." + encode(s.sign(data))
}

func (s *server) unseal(t *tool, args arguments, sealed string) (map[string]answer, *rpcError) {
	body, mac, _ := strings.Cut(sealed, ".")
	data, err1 := decodeText(body)
	sum, err2 := decodeText(mac)
	var state requestState
	if err1 != nil || err2 != nil || !s.signed(data, sum) || json.Unmarshal(data, &state) != nil ||
		state.Tool != t.name || state.Args != args || time.Now().After(state.Until) {
		return nil, errorf(codeInvalidParams, "requestState is not one that this server made for this call, or it has expired")
	}
	if state.Answers == nil {
		state.Answers = map[string]answer{}
	}
	return state.Answers, nil
}
