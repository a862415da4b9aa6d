package queued

import (
	"context"
	"errors"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
)

// tools is a backend with the tool render.
type tools struct {
	proxy.Backend
	calls int
}

func (b *tools) Listing() (*mcp.Listing, mcp.Status) {
	return &mcp.Listing{Items: map[mcp.Kind][]mcp.Item{mcp.Tool: {{Key: "render", Raw: []byte(`{"name":"render"}`)}}}}, mcp.Status{}
}

func (b *tools) Call(context.Context, *mcp.Call) (mcp.Answer, error) {
	b.calls++
	return mcp.Answer{Result: []byte(`{"content":[]}`)}, nil
}

// A worker runs the tools of the queue that a job came by, as the gateway has decided on
// them, and no others of its file.
func TestRunOnlyWhatTheQueueHas(t *testing.T) {
	own := &tools{}
	ts := &toolset{
		settings: &queue.Settings{Queues: map[string]queue.Named{"gpu": {Tools: []string{"studio__render"}}, "office": {Tools: []string{"studio__gone", "other__*"}}}},
		tools:    map[string]proxy.Backend{"studio": own}, names: map[string]string{"studio": "studio"},
	}
	l, _ := own.Listing()
	sum, _ := queue.Definition(l, "render")
	for _, w := range []queue.Work{
		{Server: "studio", Tool: "render", Definition: sum, Queue: "office"}, // the key of another queue
		{Server: "studio", Tool: "render", Definition: sum},
		{Server: "other", Tool: "render", Definition: sum, Queue: "office"},
		{Server: "studio", Tool: "gone", Queue: "office"}, // neither side lists it
		{Server: "studio", Tool: "render", Definition: "x", Queue: "gpu"},
	} {
		if _, err := ts.run(t.Context(), &w, nil); own.calls > 0 {
			t.Fatalf("%+v runs", w)
		} else if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailDisabled || f.Delivered {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if _, err := ts.run(t.Context(), &queue.Work{Server: "studio", Tool: "render", Definition: sum, Queue: "gpu"}, nil); err != nil || own.calls != 1 {
		t.Errorf("%d calls, %v", own.calls, err)
	}
}
