package conformance

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/native/agents/model"
	ours "github.com/toolgate/toolgate/native/agents/model/anthropic"
	oursopenai "github.com/toolgate/toolgate/native/agents/model/openai"
)

// TestRequests reads our requests into the types of the libraries and has these write them
// again: nothing may be lost but what is listed, and nothing may come that we have not
// written.
func TestRequests(t *testing.T) {
	files, err := filepath.Glob("../modeltest/testdata/requests/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files[1:] {
			t.Run(filepath.Base(file)+"/"+f.Name, func(t *testing.T) {
				var params any
				switch f.Name {
				case "chat.json":
					params = &openai.ChatCompletionNewParams{}
				case "responses.json":
					params = &responses.ResponseNewParams{}
				case "messages.json":
					params = &anthropic.MessageNewParams{}
				}
				if err := json.Unmarshal(f.Data, params); err != nil {
					t.Fatal(err)
				}
				again, err := json.Marshal(params)
				if err != nil {
					t.Fatal(err)
				}
				want, got := members(t, f.Data), members(t, again)
				if choice, ok := want["tool_choice"].(map[string]any); ok && f.Name != "messages.json" {
					// The libraries write a choice of one tool, and do not read it.
					if diff := cmp.Diff(oneTool(t, f.Name), choice); diff != "" {
						t.Error(diff)
					}
					got["tool_choice"] = choice
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// oneTool returns how a library writes the choice of testdata/requests/choices.txtar.
func oneTool(t *testing.T, format string) map[string]any {
	t.Helper()
	name := model.NewNames(nil, 64).Wire("notes.server__save")
	var params any = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: name})
	if format == "responses.json" {
		params = responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: name}}
	}
	data, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// members returns a request without what the libraries' types do not have: the stream,
// which is another method there, and what compatible endpoints add to chat completions.
func members(t *testing.T, data []byte) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	delete(v, "stream")
	messages, _ := v["messages"].([]any)
	for _, m := range messages {
		message, _ := m.(map[string]any)
		delete(message, "reasoning_content")
		calls, _ := message["tool_calls"].([]any)
		for _, c := range calls {
			call, _ := c.(map[string]any)
			delete(call, "extra_content")
		}
	}
	items, _ := v["input"].([]any)
	for _, i := range items {
		// The library reads a message of the model as one in the short form, which has neither.
		if item, _ := i.(map[string]any); item["type"] == "message" && item["role"] == "assistant" {
			delete(item, "id")
			delete(item, "status")
		}
	}
	if system, ok := v["system"].(string); ok { // the type has the longer form alone
		v["system"] = []any{map[string]any{"type": "text", "text": system}}
	}
	return v
}

// answered returns the turn that a client makes of an answer.
func answered(t *testing.T, format string, body io.Reader) (*model.Turn, error) {
	t.Helper()
	h := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body), Request: r}, nil
	})
	e := &model.Endpoint{URL: "https://models.example", HTTP: h}
	var m model.Model
	var err error
	switch format {
	case "chat":
		m, err = oursopenai.NewChat(e)
	case "responses":
		m, err = oursopenai.NewResponses(e)
	case "messages":
		m, err = ours.NewMessages(e)
	default:
		err = errors.New("no such format")
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Infer(t.Context(), &model.Request{Model: "m-1", Messages: []model.Message{{Role: model.User, Text: "Well?"}}}, nil)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
