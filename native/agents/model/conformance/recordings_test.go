package conformance

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/native/agents/model"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// source returns the folder of a library.
func source(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestRecordedChat reads the stream that OpenAI's library is tested with.
func TestRecordedChat(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(source(t, "github.com/openai/openai-go/v3"), "streamaccumulator_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	body := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "mockResponseBody" {
			body, err = strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		}
		return true
	})
	if err != nil || body == "" {
		t.Fatal("the recording is not where it was", err)
	}
	var acc openai.ChatCompletionAccumulator
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk openai.ChatCompletionChunk
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || !acc.AddChunk(chunk) {
			t.Fatal(err)
		}
	}
	got, err := answered(t, "chat", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	theirs := acc.Choices[0].Message
	want := &model.Turn{Message: model.Message{Role: model.Assistant, Text: theirs.Content}, Stop: got.Stop, Usage: got.Usage}
	for _, c := range theirs.ToolCalls {
		want.Calls = append(want.Calls, model.Call{ID: c.ID, Tool: c.Function.Name, Args: json.RawMessage(c.Function.Arguments)})
	}
	// The recording was given two figures by hand, to be added up by the library. Real
	// endpoints repeat what there was, so the larger one counts.
	if u := got.Usage; u.Input != 10 || u.Output != 100 || u.Cached != 20 {
		t.Errorf("the cost is %+v", u)
	}
	if len(want.Calls) == 0 || got.Stop != model.StopCalls {
		t.Errorf("the turn ends as %s with %d calls", got.Stop, len(want.Calls))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRecordedMessages reads what Anthropic's library has recorded of the real endpoint.
func TestRecordedMessages(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(source(t, "github.com/anthropics/anthropic-sdk-go/v2"), "toolrunner/testdata/cassettes/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("the recordings are not where they were", err)
	}
	turns := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var recorded struct {
			Interactions []struct {
				Response struct {
					Body string `yaml:"body"`
					Code int    `yaml:"code"`
				} `yaml:"response"`
			} `yaml:"interactions"`
		}
		if err := yaml.Unmarshal(data, &recorded); err != nil {
			t.Fatal(err)
		}
		for _, i := range recorded.Interactions {
			if i.Response.Code != 200 {
				continue
			}
			turns++
			compareMessages(t, filepath.Base(file), i.Response.Body)
		}
	}
	if turns < 10 {
		t.Errorf("there are %d recordings", turns)
	}
}

// compareMessages compares our turn with Anthropic's message of the same answer.
func compareMessages(t *testing.T, name, body string) {
	t.Helper()
	var theirs anthropic.Message
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		if err := json.Unmarshal([]byte(body), &theirs); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e anthropic.MessageStreamEventUnion
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Accumulate(e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := answered(t, "messages", strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	u := theirs.Usage
	want := &model.Turn{
		Message: model.Message{Role: model.Assistant}, Stop: model.StopEnd,
		Usage: model.Usage{Input: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, Output: u.OutputTokens, Cached: u.CacheReadInputTokens, Known: true},
	}
	if theirs.StopReason == anthropic.StopReasonToolUse {
		want.Stop = model.StopCalls
	}
	for _, b := range theirs.Content {
		switch b.Type {
		case "text":
			want.Text += b.Text
		case "tool_use":
			want.Calls = append(want.Calls, model.Call{ID: b.ID, Tool: b.Name, Args: b.Input})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}
