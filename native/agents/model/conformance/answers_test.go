package conformance

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/modeltest"
)

const args = `{"text":"ä <b>"}`

// endpoint is one of ours, with one turn.
func endpoint(t *testing.T) (string, *httptest.Server) {
	s := &modeltest.Server{Key: "key", Script: modeltest.Script{Turns: []modeltest.Turn{{
		Text: "I save it — at once.", Thinking: "They want two things.", Usage: &model.Usage{Input: 30, Output: 12, Cached: 20},
		Calls: []modeltest.Call{{ID: "a", Tool: "notes__save", Args: json.RawMessage(args)}, {ID: "b", Tool: "notes__list"}},
	}}}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL, h
}

// TestChat has OpenAI's client ask our endpoint, with and without a stream.
func TestChat(t *testing.T) {
	url, h := endpoint(t)
	c := openai.NewChatCompletionService(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("key"), option.WithHTTPClient(h.Client()), option.WithUnsafeAllowHTTP(), option.WithMaxRetries(0))
	tool := func(name string) openai.ChatCompletionToolUnionParam {
		return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: name, Parameters: openai.FunctionParameters{"type": "object"}})
	}
	params := openai.ChatCompletionNewParams{
		Model: "m-1", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Well?")},
		Tools: []openai.ChatCompletionToolUnionParam{tool("notes__save"), tool("notes__list")},
	}
	whole, err := c.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("a chunk is refused")
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	for _, got := range []openai.ChatCompletion{*whole, acc.ChatCompletion} {
		m := got.Choices[0].Message
		if m.Content != "I save it — at once." || got.Choices[0].FinishReason != "tool_calls" || len(m.ToolCalls) != 2 ||
			m.ToolCalls[0].ID != "a" || m.ToolCalls[0].Function.Arguments != args || m.ToolCalls[1].Function.Name != "notes__list" ||
			got.Usage.PromptTokens != 30 || got.Usage.PromptTokensDetails.CachedTokens != 20 {
			t.Errorf("it is %s", got.RawJSON())
		}
	}
}

// TestResponses has OpenAI's client ask our endpoint, with and without a stream.
func TestResponses(t *testing.T) {
	url, h := endpoint(t)
	c := responses.NewResponseService(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("key"), option.WithHTTPClient(h.Client()), option.WithUnsafeAllowHTTP(), option.WithMaxRetries(0))
	params := responses.ResponseNewParams{
		Model: "m-1", Store: openai.Bool(false), Include: []responses.ResponseIncludable{"reasoning.encrypted_content"},
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{{OfMessage: &responses.EasyInputMessageParam{
			Type: "message", Role: "user", Content: responses.EasyInputMessageContentUnionParam{OfString: openai.String("Well?")},
		}}}},
		Tools: []responses.ToolUnionParam{
			{OfFunction: &responses.FunctionToolParam{Name: "notes__save", Parameters: map[string]any{"type": "object"}, Strict: openai.Bool(false)}},
			{OfFunction: &responses.FunctionToolParam{Name: "notes__list", Parameters: map[string]any{"type": "object"}, Strict: openai.Bool(false)}},
		},
	}
	whole, err := c.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	stream := c.NewStreaming(t.Context(), params)
	var last responses.Response
	text, arguments := "", ""
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
		case responses.ResponseFunctionCallArgumentsDeltaEvent:
			arguments += e.Delta
		case responses.ResponseCompletedEvent:
			last = e.Response
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	if text != "I save it — at once." || arguments != args+"{}" {
		t.Errorf("the parts are %q and %q", text, arguments)
	}
	for _, got := range []responses.Response{*whole, last} {
		if got.OutputText() != "I save it — at once." || got.Status != "completed" || len(got.Output) != 4 ||
			got.Output[0].AsReasoning().EncryptedContent == "" || got.Output[2].AsFunctionCall().Arguments != args || got.Output[3].AsFunctionCall().CallID != "b" ||
			got.Usage.InputTokens != 30 || got.Usage.InputTokensDetails.CachedTokens != 20 {
			t.Errorf("it is %s", got.RawJSON())
		}
	}
}

// TestMessages has Anthropic's client ask our endpoint, with and without a stream, and give
// back what it has got.
func TestMessages(t *testing.T) {
	url, h := endpoint(t)
	client := anthropic.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(h.Client()), anthropicoption.WithMaxRetries(0))
	c := &client.Messages
	params := anthropic.MessageNewParams{
		Model: "m-1", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Well?"))},
		Tools: []anthropic.ToolUnionParam{
			{OfTool: &anthropic.ToolParam{Name: "notes__save", InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}}}},
			{OfTool: &anthropic.ToolParam{Name: "notes__list", InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}}}},
		},
	}
	whole, err := c.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	stream := c.NewStreaming(t.Context(), params)
	var acc anthropic.Message
	for stream.Next() {
		if err := acc.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	for _, got := range []anthropic.Message{*whole, acc} {
		if len(got.Content) != 4 || got.Content[0].Thinking != "They want two things." || got.Content[1].Text != "I save it — at once." ||
			string(got.Content[2].Input) != args || got.Content[3].Name != "notes__list" || got.StopReason != "tool_use" ||
			got.Usage.InputTokens != 10 || got.Usage.CacheReadInputTokens != 20 || got.Usage.OutputTokens != 12 {
			t.Errorf("it is %s", got.RawJSON())
		}
		next := params
		next.Messages = append(next.Messages, got.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock("a", "saved", false), anthropic.NewToolResultBlock("b", "none", true)))
		if _, err := c.New(t.Context(), next); err == nil || !contains(err, "the script is over") {
			t.Errorf("the next request is answered with %v", err)
		}
	}
}
