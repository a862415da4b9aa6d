package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/anthropic"
	"github.com/toolgate/toolgate/native/agents/model/modeltest"
	"github.com/toolgate/toolgate/native/agents/model/openai"
)

const key = "key-of-the-endpoint"

// client returns the client of a format.
func client(t testing.TB, format string, e *model.Endpoint) model.Model {
	t.Helper()
	var m model.Model
	var err error
	switch format {
	case "chat":
		m, err = openai.NewChat(e)
	case "responses":
		m, err = openai.NewResponses(e)
	case "messages":
		m, err = anthropic.NewMessages(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var formats = []string{"chat", "responses", "messages"}

// each runs a test against an endpoint with a script, once in each format.
func each(t *testing.T, s *modeltest.Server, run func(t *testing.T, format string, m model.Model)) {
	s.Key = key
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			run(t, format, client(t, format, &model.Endpoint{URL: h.URL + "/v1", Key: key, HTTP: h.Client().Transport}))
		})
	}
}

func ask(text string) *model.Request {
	return &model.Request{
		Model: "m-1", Instructions: "Be brief.", ID: "run-1.1",
		Messages: []model.Message{{Role: model.User, Text: text}},
		Tools: []model.Tool{
			{Name: "notes__save", Description: "Saves a note.", Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
			{Name: "notes__list"},
			{Name: "files.server__" + strings.Repeat("long-", 40) + "read"},
		},
	}
}

func infer(t *testing.T, m model.Model, r *model.Request) *model.Turn {
	t.Helper()
	turn, err := m.Infer(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// TestConversation has a model call three tools at once, answers it, and goes on.
func TestConversation(t *testing.T) {
	request := ask("save <this> & list")
	for _, whole := range []bool{false, true} {
		s := &modeltest.Server{Script: modeltest.Script{Turns: []modeltest.Turn{
			{
				Text: "I save it — at once.", Thinking: "They want <two> things.", Whole: whole, Usage: &model.Usage{Input: 30, Output: 12, Cached: 20},
				Calls: []modeltest.Call{
					{Tool: "notes__save", Args: json.RawMessage(`{"text":"ä<b>&"}`)},
					{Tool: "notes__list"},
					{Tool: request.Tools[2].Name, Args: json.RawMessage(`{"path":"/x"}`)},
				},
			},
			{Text: "Done.", Whole: whole},
		}}}
		each(t, s, func(t *testing.T, _ string, m model.Model) {
			r := *request
			var text, calls strings.Builder
			thinking := 0
			turn, err := m.Infer(t.Context(), &r, func(d model.Delta) {
				text.WriteString(d.Text)
				thinking += d.Thinking
				if d.Call != "" {
					calls.WriteString(d.Call + ",")
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			want := model.Turn{
				Message: model.Message{
					Role: model.Assistant, Text: "I save it — at once.", Opaque: turn.Opaque,
					Calls: []model.Call{
						{ID: turn.Calls[0].ID, Tool: "notes__save", Args: json.RawMessage(`{"text":"ä<b>&"}`)},
						{ID: turn.Calls[1].ID, Tool: "notes__list", Args: json.RawMessage(`{}`)},
						{ID: turn.Calls[2].ID, Tool: request.Tools[2].Name, Args: json.RawMessage(`{"path":"/x"}`)},
					},
				},
				Stop: model.StopCalls, Usage: model.Usage{Input: 30, Output: 12, Cached: 20, Known: true},
			}
			if diff := cmp.Diff(&want, turn); diff != "" {
				t.Error(diff)
			}
			if len(turn.Opaque) == 0 {
				t.Error("the thinking is lost")
			}
			if !whole && (text.String() != turn.Text || thinking != len("They want <two> things.") || strings.Count(calls.String(), ",") != 3) {
				t.Errorf("progress was %q, %d bytes of thinking, calls of %s", text.String(), thinking, calls.String())
			}

			kept, err := json.Marshal(turn.Message)
			if err != nil {
				t.Fatal(err)
			}
			var back model.Message
			if err := json.Unmarshal(kept, &back); err != nil {
				t.Fatal(err)
			}
			r.Messages = append(r.Messages, back, model.Message{Role: model.Tools, Results: []model.Result{
				{Call: back.Calls[0].ID, Text: "saved"},
				{Call: back.Calls[1].ID, Text: "no such server", IsError: true},
				{Call: back.Calls[2].ID},
			}})
			if turn := infer(t, m, &r); turn.Text != "Done." || turn.Stop != model.StopEnd {
				t.Errorf("the second turn is %+v", turn)
			}
			// Another model is not given what the first one has thought.
			r.Model = "m-2"
			infer(t, m, &r)
		})
	}
}

// TestOddTurns is what models answer that nobody wants.
func TestOddTurns(t *testing.T) {
	s := &modeltest.Server{Script: modeltest.Script{Turns: []modeltest.Turn{
		{When: "nothing"},
		{When: "refuse", Text: "I will not.", Refusal: true},
		{When: "cut", Text: "It is", Cut: true},
		{When: "broken", Calls: []modeltest.Call{{Tool: "notes__save", Raw: `{"text": "a`}, {Tool: "made up", Args: json.RawMessage(`{}`)}, {Tool: "notes__save", Raw: `[1]`}}},
		{When: "twice", Calls: []modeltest.Call{{ID: "a", Tool: "notes__list"}, {ID: "a", Tool: "notes__list"}}},
		{When: "endless", Calls: make([]modeltest.Call, model.MaxCalls+1)},
		{Text: "I am sorry."},
		{Text: "I am sorry."},
	}}}
	each(t, s, func(t *testing.T, _ string, m model.Model) {
		if turn := infer(t, m, ask("nothing")); turn.Text != "" || len(turn.Calls) != 0 || turn.Stop != model.StopEnd {
			t.Errorf("nothing is %+v", turn)
		}
		if turn := infer(t, m, ask("refuse")); turn.Text != "I will not." || turn.Stop != model.StopRefusal {
			t.Errorf("a refusal is %+v", turn)
		}
		if turn := infer(t, m, ask("cut")); turn.Text != "It is" || turn.Stop != model.StopLength {
			t.Errorf("a cut turn is %+v", turn)
		}
		r := ask("broken")
		turn := infer(t, m, r)
		if len(turn.Calls) != 3 || turn.Calls[0].Broken == "" || turn.Calls[0].Raw != `{"text": "a` || turn.Calls[0].Args != nil ||
			turn.Calls[1].Broken != "" || turn.Calls[1].Tool != "made up" || turn.Calls[2].Broken == "" {
			t.Fatalf("broken calls are %+v", turn.Calls)
		}
		r.Messages = append(r.Messages, turn.Message, model.Message{Role: model.Tools})
		for _, c := range turn.Calls {
			r.Messages[2].Results = append(r.Messages[2].Results, model.Result{Call: c.ID, Text: c.Broken, IsError: true})
		}
		infer(t, m, r)
		turn = infer(t, m, ask("twice"))
		if len(turn.Calls) != 2 || turn.Calls[0].ID == turn.Calls[1].ID {
			t.Errorf("two calls with one id are %+v", turn.Calls)
		}
		_, err := m.Infer(t.Context(), ask("endless"), nil)
		if fault, ok := errors.AsType[*model.Error](err); !ok || fault.Kind != model.BadAnswer {
			t.Errorf("endless calls are %v", err)
		}
	})
}

func TestChoices(t *testing.T) {
	s := &modeltest.Server{Script: modeltest.Script{Turns: []modeltest.Turn{{Text: "Yes."}}}}
	each(t, s, func(t *testing.T, _ string, m model.Model) {
		r := ask("well?")
		for _, c := range []model.Choice{{}, {Mode: model.ChooseNone}, {Mode: model.ChooseRequired}, {Mode: model.ChooseTool, Tool: r.Tools[2].Name}} {
			r.Choice = c
			infer(t, m, r)
		}
		r.Tools = nil // then there is nothing to choose from
		infer(t, m, r)
	})
}

func TestFaults(t *testing.T) {
	var s modeltest.Server
	for _, f := range []modeltest.Fault{modeltest.RateLimit, modeltest.ServerError, modeltest.Overloaded, modeltest.Unauthorized, modeltest.TooLong, modeltest.InStream, modeltest.CutStream, modeltest.EndStream, modeltest.Garbage, modeltest.Page, modeltest.Huge, modeltest.Hangup} {
		s.Script.Turns = append(s.Script.Turns, modeltest.Turn{When: "<" + string(f) + ">", Text: "This is a text of some length.", Fault: f, Usage: &model.Usage{Input: 7, Output: 1}})
	}
	s.Script.Turns = append(s.Script.Turns, modeltest.Turn{When: "<once>", Text: "Better.", Fault: modeltest.Overloaded, Times: 1})
	each(t, &s, func(t *testing.T, format string, m model.Model) {
		for fault, want := range map[string]model.Error{
			"rate_limit":   {Kind: model.RateLimited, Status: 429, Repeat: true, After: time.Second},
			"error":        {Kind: model.Overloaded, Status: 500, Repeat: true},
			"overloaded":   {Kind: model.Overloaded, Status: map[string]int{"messages": 529}[format], Repeat: true},
			"unauthorized": {Kind: model.Unauthorized, Status: 401},
			"too_long":     {Kind: model.TooLong, Status: 400},
			"in_stream":    {Kind: model.Overloaded, Repeat: true},
			"cut_stream":   {Kind: model.BadAnswer, Repeat: true},
			"end_stream":   {Kind: model.BadAnswer, Repeat: true},
			"garbage":      {Kind: model.BadAnswer, Repeat: true},
			"page":         {Kind: model.BadAnswer, Repeat: true},
			"huge":         {Kind: model.BadAnswer},
			"hangup":       {Kind: model.Unreachable, Repeat: true},
			"else":         {Kind: model.Refused, Status: 400},
		} {
			_, err := m.Infer(t.Context(), ask("<"+fault+">"), nil)
			got, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Errorf("%s is %v", fault, err)
				continue
			}
			if want.Status == 0 && fault == "overloaded" {
				want.Status = 503
			}
			if got.Kind != want.Kind || got.Status != want.Status || got.Repeat != want.Repeat || got.After != want.After {
				t.Errorf("%s is %+v", fault, got)
			}
			if strings.Contains(got.Detail+got.Error(), key) || strings.Contains(got.Error(), "127.0.0.1") && fault != "hangup" {
				t.Errorf("%s says too much: %v: %s", fault, got, got.Detail)
			}
			if format == "messages" && fault == "cut_stream" && got.Usage.Input != 7 {
				t.Errorf("the cost of a turn that was cut is %+v", got.Usage)
			}
		}
		if _, err := m.Infer(t.Context(), ask("<once>"), nil); err == nil {
			t.Error("a client repeats requests by itself")
		}
		infer(t, m, ask("<once>"))
	})
}

// TestCancel ends requests that get no answer, and some that get no more of it.
func TestCancel(t *testing.T) {
	s := &modeltest.Server{Script: modeltest.Script{Turns: []modeltest.Turn{
		{When: "silent", Fault: modeltest.Silent},
		{When: "hang", Text: "This is a text of some length.", Fault: modeltest.Hang},
	}}}
	each(t, s, func(t *testing.T, _ string, m model.Model) {
		for _, what := range []string{"silent", "hang"} {
			cause := errors.New("the caller has gone")
			best := time.Hour
			for range 5 {
				ctx, cancel := context.WithCancelCause(t.Context())
				begun := make(chan struct{})
				var at time.Time
				go func() {
					if what == "hang" {
						<-begun
					}
					at = time.Now()
					cancel(cause)
				}()
				once := false
				_, err := m.Infer(ctx, ask(what), func(model.Delta) {
					if !once {
						once = true
						close(begun)
					}
				})
				best = min(best, time.Since(at))
				if !errors.Is(err, cause) {
					t.Errorf("%s ends with %v", what, err)
				}
			}
			if best > 100*time.Millisecond {
				t.Errorf("%s ends %v after it was cancelled", what, best)
			}
		}
	})
}

// TestNothingOfTheEnvironment sets what the libraries of the endpoints' owners read.
func TestNothingOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"} {
		t.Setenv(name, "of-the-environment")
	}
	for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://of-the-environment.example/v1")
	}
	for _, name := range []string{"OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"} {
		t.Setenv(name, "X-Custom: of-the-environment")
	}
	for _, format := range formats {
		for _, secret := range []string{key, ""} {
			var seen *http.Request
			h := roundTrip(func(r *http.Request) (*http.Response, error) {
				seen = r
				return nil, errors.New("enough")
			})
			m := client(t, format, &model.Endpoint{URL: "https://models.example/base/v1/", Key: secret, HTTP: h})
			_, err := m.Infer(t.Context(), ask("hello"), nil)
			if err == nil {
				t.Fatal("there was an answer")
			}
			want := http.Header{
				"Accept": {"text/event-stream, application/json"}, "Content-Type": {"application/json"}, "User-Agent": {"toolgate"},
				"Idempotency-Key": {"run-1.1"},
			}
			path := map[string]string{"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}[format]
			switch {
			case format == "messages":
				want["Anthropic-Version"] = []string{"2023-06-01"}
				if secret != "" {
					want["X-Api-Key"] = []string{secret}
				}
			default:
				want["X-Client-Request-Id"] = []string{"run-1.1"}
				if secret != "" {
					want["Authorization"] = []string{"Bearer " + secret}
				}
			}
			if diff := cmp.Diff(want, seen.Header); diff != "" {
				t.Error(diff)
			}
			if got := seen.URL.String(); got != "https://models.example/base/v1"+path {
				t.Errorf("%s goes to %s", format, got)
			}
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPlainModel asks a model without reasoning, whose endpoint refuses to give it back.
func TestPlainModel(t *testing.T) {
	asked := 0
	s := &modeltest.Server{Key: key, Script: modeltest.Script{Turns: []modeltest.Turn{{Text: "Yes."}}}, Seen: func(modeltest.Seen) { asked++ }}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	m := client(t, "responses", &model.Endpoint{URL: h.URL + "/v1", Key: key, HTTP: h.Client().Transport})
	for range 2 {
		r := ask("well?")
		r.Model = "plain-1"
		infer(t, m, r)
	}
	if asked != 2 {
		t.Errorf("%d requests were taken", asked)
	}
}

func TestEndpoints(t *testing.T) {
	for _, e := range []model.Endpoint{
		{URL: "", HTTP: http.DefaultTransport},
		{URL: "ftp://models.example", HTTP: http.DefaultTransport},
		{URL: "https://user:secret@models.example", HTTP: http.DefaultTransport},
		{URL: "https://models.example?key=secret", HTTP: http.DefaultTransport},
		{URL: "https://models.example"},
		{URL: "https://models.example", HTTP: http.DefaultTransport, Parameters: map[string]json.RawMessage{"tools": json.RawMessage(`[]`)}},
		{URL: "https://models.example", HTTP: http.DefaultTransport, Parameters: map[string]json.RawMessage{"temperature": json.RawMessage(`{`)}},
	} {
		if _, err := openai.NewChat(&e); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("chat: %+v: %v", e, err)
		}
		if _, err := openai.NewResponses(&e); err == nil {
			t.Errorf("responses: %+v is taken", e)
		}
		if _, err := anthropic.NewMessages(&e); err == nil {
			t.Errorf("messages: %+v is taken", e)
		}
	}
}
