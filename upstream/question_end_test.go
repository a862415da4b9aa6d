package upstream

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// The end of a call waits for the questions that are open, and a question that comes later is
// none of it.
func TestQuestionAfterTheEnd(t *testing.T) {
	t.Parallel()
	ask := func(id int64) *mcp.Message {
		msg, err := mcp.Parse(mcp.AppendRequest(nil, mcp.NumberID(id), "elicitation/create", []byte("{}")), mcp.Limits{Depth: 9})
		if err != nil {
			t.Fatal(err)
		}
		return &msg
	}
	var q questions
	if _, ok := q.add(t.Context(), ask(1), 1000); !ok {
		t.Fatal("the call goes on, and cannot ask")
	}
	over := make(chan struct{})
	go func() { q.end(); close(over) }()
	for { // until the end has begun
		if _, ok := q.add(t.Context(), ask(2), 1000); !ok {
			break
		}
		q.close(t.Context(), ask(2).ID, 0)
		q.wg.Done()
	}
	select {
	case <-over:
		t.Error("the end does not wait for an open question")
	default:
	}
	q.wg.Done()
	<-over
	if _, ok := q.add(t.Context(), ask(3), 1000); ok {
		t.Error("a question is asked after the end of its call")
	}
}
