package enable_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/enable"
)

// read_result answers with a text alone; what is wrong with a call is an answer, too.
func TestReadResult(t *testing.T) {
	b := enable.New(nil, nil).WithResults(func(_ context.Context, args []byte) (string, error) {
		if id, _ := mcp.LookupString(args, "id"); id != "a" {
			return "", errors.New("There is none.")
		}
		return "line \"1\"", nil
	})
	for args, want := range map[string]string{
		`{"id":"a"}`: `{"content":[{"type":"text","text":"line \"1\""}]}`,
		`{"id":"b"}`: `{"content":[{"type":"text","text":"There is none."}],"isError":true}`,
	} {
		got, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"read_result","arguments":` + args + `}`)})
		if err != nil || string(got.Result) != want {
			t.Errorf("%s: got %s, %v", args, got.Result, err)
		}
	}
}

// The tool is there only where results are kept, and beside the others.
func TestReadResultIsListed(t *testing.T) {
	names := func(b *enable.Backend) string {
		l, _ := b.Listing()
		var out []string
		for _, item := range l.Items[mcp.Tool] {
			if err := mcp.Validate(item.Raw, mcp.Limits{}); err != nil {
				t.Errorf("%s: %v", item.Key, err)
			}
			out = append(out, item.Key)
		}
		return strings.Join(out, " ")
	}
	read := func(context.Context, []byte) (string, error) { return "", nil }
	if got := names(enable.New(nil, nil)); got != "" {
		t.Errorf("without: %s", got)
	}
	if got := names(enable.New(nil, nil).WithStats(&figures{}).WithResults(read)); got != "read_result tool_stats" {
		t.Errorf("got %s", got)
	}
	got, err := enable.New(nil, nil).WithStats(&figures{}).Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"read_result","arguments":{"id":"a"}}`)})
	if err != nil || !strings.Contains(string(got.Result), "There is no tool") {
		t.Errorf("got %s, %v", got.Result, err)
	}
}
