package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/agents/model"
)

// What a request says of the gateway's own is not a parameter, however its name is written.
func TestCheckParameters(t *testing.T) {
	many := map[string]json.RawMessage{}
	for i := range model.MaxParameters + 1 {
		many[fmt.Sprint("p", i)] = json.RawMessage(`1`)
	}
	one := func(name, value string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(value)}
	}
	for _, f := range []model.Format{model.Chat, model.Responses, model.Messages} {
		for _, bad := range []struct {
			parameters map[string]json.RawMessage
			name, want string
		}{
			{one("model", `"other"`), "model", "is not free"},
			{one("tools", `[]`), "tools", "is not free"},
			{one("Tool_Choice", `"auto"`), "Tool_Choice", "is not free"},
			{one("stream", `false`), "stream", "is not free"},
			{one("temperature", `{`), "temperature", "is not JSON"},
			{one("metadata", `"`+strings.Repeat("x", model.MaxParameterBytes)+`"`), "", "bytes"},
			{many, "", "at most 32"},
		} {
			name, err := model.CheckParameters(f, bad.parameters)
			if err == nil || name != bad.name || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%s: %.60v: %q, %v", f, bad.parameters, name, err)
			}
		}
		if name, err := model.CheckParameters(f, one("temperature", `0.2`)); err != nil {
			t.Errorf("%s: %s: %v", f, name, err)
		}
	}
	for f, own := range map[model.Format]string{model.Chat: "max_tokens", model.Responses: "previous_response_id", model.Messages: "mcp_servers"} {
		if _, err := model.CheckParameters(f, one(own, `1`)); err == nil {
			t.Errorf("%s: %s is taken", f, own)
		}
	}
}
