//go:build e2e

package matrix

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// script says what a tool, a prompt or a resource asks its client: in rounds,
// each of one or several questions at once.
type script struct {
	Cell   string       `json:"cell"`
	Force  bool         `json:"force"` // even what the client did not declare
	Rounds [][]question `json:"rounds"`
	// Unanswered tells that the client will not answer.
	Unanswered bool `json:"unanswered,omitempty"`
	// Flood has a legacy server wait for one answer of each round alone.
	Flood bool `json:"flood,omitempty"`
	// Repeat is how often the one question is asked: with Flood in one round,
	// else in as many.
	Repeat int `json:"repeat,omitempty"`
}

type question struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// answered is what came back to a question.
type answered struct {
	Key    string          `json:"key"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Fault  json.RawMessage `json:"fault,omitempty"`
}

func ctxCause(in *incoming) error { return context.Cause(in.ctx) }

// ask3 asks what a script says, as the revision does it. It returns what was
// answered; or nil and the result that asks for input; or nil and a fault.
func (in *incoming) ask3(raw []byte) (said, required []byte, fault *mcp.Error) {
	var s script
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "no script: %v", err)
	}
	s.expand()
	in.cell = s.Cell
	if in.msg.Param("requestState") == nil {
		in.board().say("begun", "")
	}
	in.p.mu.Lock()
	in.p.cell = s.Cell
	in.p.mu.Unlock()
	if missing := s.undeclared(in.capabilities()); missing != "" && !s.Force {
		if in.p.s.kind.modern() {
			fault := mcp.Errorf(mcp.CodeMissingCapability, "the client did not declare %s", missing)
			fault.Data = []byte(`{"requiredCapabilities":{"` + missing + `":{}}}`)
			return nil, nil, fault
		}
		return nil, nil, mcp.Errorf(-31998, "the connection did not declare %s", missing)
	}
	var all []answered
	if in.p.s.kind.modern() {
		var done bool
		if all, required, done = in.round(&s); !done {
			return nil, required, nil
		}
	} else {
		for _, questions := range s.Rounds {
			if s.Flood {
				all = append(all, in.flood(questions)...)
				continue
			}
			all = append(all, in.askAll(questions, s.Unanswered)...)
		}
	}
	said, err := json.Marshal(all)
	if err != nil {
		return nil, nil, mcp.Errorf(mcp.CodeInternal, "%v", err)
	}
	return said, nil, nil
}

// expand writes out the question that is repeated.
func (s *script) expand() {
	if s.Repeat == 0 || len(s.Rounds) != 1 || len(s.Rounds[0]) != 1 {
		return
	}
	one := s.Rounds[0][0]
	var all []question
	for n := range s.Repeat {
		all = append(all, question{fmt.Sprint(one.Key, n), one.Method, one.Params})
	}
	if s.Flood {
		s.Rounds = [][]question{all}
		return
	}
	s.Rounds = nil
	for i := range all {
		s.Rounds = append(s.Rounds, all[i:i+1])
	}
}

// undeclared names a capability that a question of the script needs and the
// client did not declare.
func (s *script) undeclared(capabilities []byte) string {
	for _, questions := range s.Rounds {
		for _, q := range questions {
			if need := needed(q.Method, q.Params); lookupPath(capabilities, need) == nil {
				return strings.Split(need, "/")[0]
			}
		}
	}
	return ""
}

// needed is the path of the client capability that a question needs.
func needed(method string, params []byte) string {
	switch method {
	case mcp.MethodSampling:
		if mcp.Lookup(params, "tools") != nil {
			return "sampling/tools"
		}
		return "sampling"
	case mcp.MethodElicit:
		if mode, _ := mcp.LookupString(params, "mode"); mode == "url" {
			return "elicitation/url"
		}
		return "elicitation"
	default:
		return "roots"
	}
}

// askAll asks several questions at once (legacy revisions). That one stays
// without an answer is a broken rule unless it is expected.
func (in *incoming) askAll(questions []question, unanswered bool) []answered {
	out := make([]answered, len(questions))
	var all sync.WaitGroup
	for i, q := range questions {
		all.Go(func() {
			out[i].Key = q.Key
			msg, err := in.ask(q.Method, q.Params)
			switch {
			case err != nil:
				in.board().say("unanswered", in.signal())
				if !unanswered {
					in.board().problem("server %s: %v", in.p.s.kind, err)
				}
				out[i].Fault = mcp.Quote(err.Error())
			case msg.Fault() != nil:
				out[i].Fault = msg.Fault()
			default:
				out[i].Answer = msg.Result()
			}
		})
	}
	all.Wait()
	return out
}

// flood asks everything at once and waits for the first answer alone. What is
// answered later is no broken rule: it was asked.
func (in *incoming) flood(questions []question) []answered {
	first := make(chan mcp.Message, len(questions))
	for _, q := range questions {
		in.put(q.Method, q.Params, first)
	}
	select {
	case <-first:
		return []answered{}
	case <-in.ctx.Done():
		return nil
	}
}

// state is what a modern server lets its client carry between two rounds.
type state struct {
	Cell     string     `json:"cell"`
	Round    int        `json:"round"` // whose answers come next
	Answers  []answered `json:"answers"`
	Canary   string     `json:"canary"`
	Opposite int64      `json:"opposite"`
}

// round takes the answers of one round and asks the next one (2026-07-28
// basic/patterns/mrtr); done tells that there is none.
func (in *incoming) round(s *script) (all []answered, required []byte, done bool) {
	var now state
	carried, responses := in.msg.Param("requestState"), in.msg.Param("inputResponses")
	srv := in.p.s
	if carried == nil {
		if responses != nil {
			in.p.broken("answers without the state that they belong to: %s", in.msg.Raw)
		}
		srv.mu.Lock()
		srv.first[s.Cell] = string(in.own())
		srv.mu.Unlock()
	} else {
		text, err := mcp.Unquote(carried)
		raw, err2 := base64.StdEncoding.DecodeString(text)
		srv.mu.Lock()
		want, first := srv.states[s.Cell], srv.first[s.Cell]
		srv.mu.Unlock()
		switch {
		case err != nil || err2 != nil || text != want:
			in.p.broken("the request state is not the one that was given: %s", carried)
			return nil, nil, true
		case string(in.own()) != first:
			in.p.broken("the retry is another request: %s, not %s", in.own(), first)
		}
		if err := json.Unmarshal(raw, &now); err != nil {
			in.p.broken("the request state: %v", err)
			return nil, nil, true
		}
		now.Answers = append(now.Answers, in.answers(s.Rounds[now.Round], responses)...)
		now.Round++
	}
	if now.Round >= len(s.Rounds) {
		return now.Answers, nil, true
	}
	now.Cell, now.Canary, now.Opposite = s.Cell, `"quoted" and é`, 9007199254740993
	raw, err := json.Marshal(now)
	if err != nil {
		in.p.broken("the request state: %v", err)
	}
	text := base64.StdEncoding.EncodeToString(raw)
	srv.mu.Lock()
	srv.states[s.Cell] = text
	srv.mu.Unlock()
	var asks []string
	for _, q := range s.Rounds[now.Round] {
		ask := fmt.Sprintf(`%s:{"method":%q`, mcp.Quote(q.Key), q.Method)
		if q.Params != nil {
			ask += `,"params":` + string(q.Params)
		}
		asks = append(asks, ask+"}")
	}
	return nil, []byte(`{"resultType":"input_required","inputRequests":{` + strings.Join(asks, ",") + `},"requestState":` + string(mcp.Quote(text)) + `}`), false
}

// own is what of a request has to be the same in every round of it.
func (in *incoming) own() []byte {
	params := in.msg.Params()
	for _, member := range []string{"_meta", "requestState", "inputResponses"} {
		params = mcp.RemoveMember(params, member)
	}
	return params
}

// answers reads the answers of a round, which must be those to its questions
// and no others.
func (in *incoming) answers(questions []question, responses []byte) []answered {
	var out []answered
	g := grammars()[in.p.s.kind.rev]
	for _, q := range questions {
		answer := mcp.Lookup(responses, q.Key)
		if answer == nil {
			in.p.broken("the question %s was not answered: %s", q.Key, responses)
			continue
		}
		if err := g.validate(results[q.Method], answer); err != nil {
			in.p.broken("%v: %s", err, answer)
		}
		out = append(out, answered{Key: q.Key, Answer: answer})
	}
	n := 0
	for range mcp.Members(responses) {
		n++
	}
	if n != len(questions) {
		in.p.broken("%d answers to %d questions: %s", n, len(questions), responses)
	}
	return out
}
