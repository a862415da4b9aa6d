package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/intercept/server"
)

// host answers what a server would.
type host struct {
	list, invoke string
	asked        []string // methods
	last         string   // params of the last invocation
}

func (h *host) Request(_ context.Context, name, method string, params []byte) ([]byte, error) {
	h.asked = append(h.asked, method)
	answer := h.list
	if method == "interceptor/invoke" {
		answer, h.last = h.invoke, string(params)
	}
	if answer == "" || name != "guards" {
		return nil, errors.New("gone")
	}
	return []byte(answer), nil
}

const hosted = `{"interceptors":[{"name":"other","type":"validation"},{"name":"x","type":"TYPE","hooks":[{"events":["tools/call","prompts/get"],"phase":"request"},{"events":["*"],"phase":"response"}]}]}`

func of(kind, invoke string) (*server.Server, *host) {
	h := &host{list: strings.Replace(hosted, "TYPE", kind, 1), invoke: invoke}
	return server.New(intercept.Settings{Name: "x", Server: "guards", Type: kind}, h), h
}

func asks(method string, phase intercept.Phase, payload string) *intercept.Invocation {
	return &intercept.Invocation{Call: &intercept.Call{ID: "c", Method: method, Principal: "alice", Server: "s", Name: "s__echo"}, Phase: phase, Payload: []byte(payload)}
}

// TestInvocation is as the draft writes it.
func TestInvocation(t *testing.T) {
	s, h := of(intercept.Validation, `{"valid":true}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if v, err := s.Intercept(ctx, asks(mcp.MethodToolsCall, intercept.Before, `{"a":1}`)); err != nil || v.Effect != intercept.Pass {
		t.Fatalf("%+v, %v", v, err)
	}
	if !strings.HasPrefix(h.last, `{"name":"x","event":"tools/call","phase":"request","payload":{"method":"tools/call","params":{"name":"s__echo","arguments":{"a":1}}},"timeoutMs":`) ||
		!strings.Contains(h.last, `"context":{"principal":{"type":"user","id":"alice"},"timestamp":"`) {
		t.Errorf("asked %s", h.last)
	}
	if _, err := s.Intercept(ctx, asks(mcp.MethodRead, intercept.After, `{"contents":[]}`)); err != nil || !strings.Contains(h.last, `"phase":"response","payload":{"contents":[]}`) {
		t.Errorf("asked %s, %v", h.last, err)
	}
	if v, err := s.Intercept(ctx, asks(mcp.MethodRead, intercept.Before, `{"uri":"a:b"}`)); err != nil || v.Effect != intercept.Pass || len(h.asked) != 3 {
		t.Errorf("an event without a hook: %+v, %v, %q", v, err, h.asked)
	}
}

// TestAnswers reads what validations and mutations say. What cannot be read decides nothing.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		kind, answer string
		phase        intercept.Phase
		want         intercept.Verdict
		err          string
	}{
		{kind: intercept.Validation, answer: `{"valid":true}`, want: intercept.Verdict{Effect: intercept.Pass}},
		{kind: intercept.Validation, answer: `{"valid":false}`, want: intercept.Verdict{}},
		{kind: intercept.Validation, answer: `{"valid":false,"severity":"error","messages":[{"path":"a","message":"bad"},{"message":"worse"}]}`, want: intercept.Verdict{Reason: "a: bad; worse"}},
		{kind: intercept.Validation, answer: `{"valid":false,"severity":"warn","messages":[{"message":"hm"}]}`, want: intercept.Verdict{Effect: intercept.Pass, Reason: "hm"}},
		{kind: intercept.Validation, answer: `{"modified":false}`, err: "does not say whether the call is valid"},
		{kind: intercept.Validation, answer: `[]`, err: "does not say whether the call is valid"},
		{kind: intercept.Validation, answer: ``, err: "gone"},
		{kind: intercept.Mutation, answer: `{"modified":false,"payload":{"x":1}}`, want: intercept.Verdict{Effect: intercept.Pass}},
		{kind: intercept.Mutation, answer: `{"valid":true}`, err: "does not say whether it has changed anything"},
		{kind: intercept.Mutation, answer: `{"modified":true}`, err: "has no payload"},
		{kind: intercept.Mutation, answer: `{"modified":true,"payload":{"method":"tools/call","params":{"arguments":{"b":2},"name":"s__echo"}}}`, want: intercept.Verdict{Effect: intercept.Pass, Payload: []byte(`{"b":2}`)}},
		{kind: intercept.Mutation, answer: `{"modified":true,"payload":{"method":"tools/call","params":{"name":"s__other","arguments":{}}}}`, err: "it changes more than the arguments"},
		{kind: intercept.Mutation, answer: `{"modified":true,"payload":{"method":"prompts/get","params":{"name":"s__echo","arguments":{}}}}`, err: "it changes more than the arguments"},
		{kind: intercept.Mutation, answer: `{"modified":true,"payload":{"method":"tools/call","params":{"name":"s__echo"}}}`, err: "it changes more than the arguments"},
		{kind: intercept.Mutation, phase: intercept.After, answer: `{"modified":true,"payload":{"content":[]}}`, want: intercept.Verdict{Effect: intercept.Pass, Payload: []byte(`{"content":[]}`)}},
	} {
		s, _ := of(tt.kind, tt.answer)
		phase := tt.phase
		if phase == "" {
			phase = intercept.Before
		}
		v, err := s.Intercept(t.Context(), asks(mcp.MethodToolsCall, phase, `{"a":1}`))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s %s: %+v, %v, want %q", tt.kind, tt.answer, v, err, tt.err)
			}
			continue
		}
		if err != nil || v.Effect != tt.want.Effect || v.Reason != tt.want.Reason || string(v.Payload) != string(tt.want.Payload) {
			t.Errorf("%s %s: %+v, %v, want %+v", tt.kind, tt.answer, v, err, tt.want)
		}
	}
}

// TestDeclarations: an interceptor that its server does not list, or lists as another type,
// is not asked. What is listed counts for a minute.
func TestDeclarations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := of(intercept.Validation, `{"valid":true}`)
		ask := func() error {
			_, err := s.Intercept(t.Context(), asks(mcp.MethodToolsCall, intercept.Before, `{}`))
			return err
		}
		h.list = strings.Replace(hosted, "TYPE", intercept.Mutation, 1)
		if err := ask(); err == nil || !strings.Contains(err.Error(), `says that it is a "mutation"`) {
			t.Errorf("another type: %v", err)
		}
		h.list = `{"interceptors":[],"nextCursor":"more"}`
		if err := ask(); err == nil || !strings.Contains(err.Error(), "has no interceptor x") || len(h.asked) != 11 {
			t.Errorf("endless pages: %v after %d requests", err, len(h.asked))
		}
		h.list, h.asked = strings.Replace(hosted, "TYPE", intercept.Validation, 1), nil
		for range 3 {
			if err := ask(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Minute)
		if err := ask(); err != nil || strings.Count(strings.Join(h.asked, " "), "interceptors/list") != 2 {
			t.Errorf("asked %q, %v", h.asked, err)
		}
	})
}
