package cli

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExporters(t *testing.T) {
	items := [][]byte{
		[]byte(`{"name":"a","title":"A","inputSchema":{"type":"object","properties":{"n":{"maximum":12345678901234567890}},"required":["n"]},"annotations":{"readOnlyHint":true}}`),
		[]byte(`{"name":"b","description":"Does \"b\".","inputSchema":{"type":"object","additionalProperties":false},"outputSchema":{"type":"object"}}`),
	}
	for format, want := range map[string]string{
		"mcp": `{"tools":[` + string(items[0]) + "," + string(items[1]) + "]}",
		"openai": `[{"type":"function","function":{"name":"a","description":"A","parameters":{"type":"object","properties":{"n":{"maximum":12345678901234567890}},"required":["n"]}}},` +
			`{"type":"function","function":{"name":"b","description":"Does \"b\".","parameters":{"properties":{},"type":"object","additionalProperties":false}}}]`,
	} {
		got := exporters[format](items)
		if diff := cmp.Diff(want, string(got)); diff != "" || !json.Valid(got) {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
	if got := string(exporters["openai"](nil)); got != "[]" {
		t.Error(got)
	}
}
