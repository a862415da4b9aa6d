package sdk

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/toolapi"
)

// maxNested is how many calls of others one call may have under way at once.
const maxNested = 64

// nestedCalls are the calls of other tools that one call waits for. It is safe for
// concurrent use.
type nestedCalls struct {
	send func(*proto.CallEvent)

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan<- *proto.AnswerRequest
}

// call makes a call and waits for its answer. When ctx ends, so does the call.
func (n *nestedCalls) call(ctx context.Context, tool string, arguments []byte) (Result, error) {
	answer := make(chan *proto.AnswerRequest, 1)
	n.mu.Lock()
	if len(n.waiting) >= maxNested {
		n.mu.Unlock()
		return Result{}, Problemf("The tool has %d calls of others under way, which is the most at once.", maxNested)
	}
	n.last++
	id := n.last
	if n.waiting == nil {
		n.waiting = make(map[int64]chan<- *proto.AnswerRequest)
	}
	n.waiting[id] = answer
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.waiting, id)
		n.mu.Unlock()
	}()
	n.send(&proto.CallEvent{Event: &proto.CallEvent_Nested{Nested: &proto.NestedCall{Id: id, Tool: tool, ArgumentsJson: arguments}}})
	select {
	case <-ctx.Done():
		n.send(&proto.CallEvent{Event: &proto.CallEvent_NestedCancel{NestedCancel: &proto.NestedCancel{Id: id}}})
		return Result{}, context.Cause(ctx)
	case got := <-answer:
		if got.GetRefused() != "" {
			return Result{}, toolapi.Problem(got.GetRefused())
		}
		return toolapi.ReadResult(got.GetResultJson())
	}
}

// answered hands over an answer; one that nobody waits for any more is dropped.
func (n *nestedCalls) answered(in *proto.AnswerRequest) {
	n.mu.Lock()
	answer := n.waiting[in.GetId()]
	delete(n.waiting, in.GetId())
	n.mu.Unlock()
	if answer != nil {
		answer <- in
	}
}

// runningCalls are the running calls that may call others, by their ids. It is safe for
// concurrent use.
type runningCalls struct {
	mu sync.Mutex
	by map[string]*nestedCalls
}

func (r *runningCalls) add(call string, n *nestedCalls) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = make(map[string]*nestedCalls)
	}
	r.by[call] = n
}

func (r *runningCalls) remove(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, call)
}

func (r *runningCalls) find(call string) *nestedCalls {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[call]
}

// Answer implements proto.ToolPluginServer.
func (s *server) Answer(_ context.Context, in *proto.AnswerRequest) (*proto.AnswerResponse, error) {
	n := s.running.find(in.GetCallId())
	if n == nil {
		return nil, status.Error(codes.NotFound, "the call has ended")
	}
	n.answered(in)
	return &proto.AnswerResponse{}, nil
}
