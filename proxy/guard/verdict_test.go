package guard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// The verdict on each end of a request.
func TestJudge(t *testing.T) {
	t.Parallel()
	failure := func(kind mcp.FailureKind, change ...func(*mcp.Failure)) error {
		f := &mcp.Failure{Kind: kind, Origin: mcp.OriginHop, Server: "srv"}
		for _, c := range change {
			c(f)
		}
		return f
	}
	delivered := func(f *mcp.Failure) { f.Delivered = true }
	server := func(f *mcp.Failure) { f.Origin = mcp.OriginServer }
	status := func(code int) func(*mcp.Failure) { return func(f *mcp.Failure) { f.Status = code } }
	fault := func(code int) mcp.Answer { return mcp.Answer{Fault: mcp.Errorf(code, "no")} }
	tests := []struct {
		name   string
		answer mcp.Answer
		err    error
		want   verdict
	}{
		{"a result", result(mcp.Modern, `{}`), nil, healthy},
		{"an error of the tool", result(mcp.Modern, `{"isError":true}`), nil, healthy},
		{"invalid params", fault(mcp.CodeInvalidParams), nil, healthy},
		{"an unknown method", fault(mcp.CodeMethodNotFound), nil, healthy},
		{"an error of the server's own", fault(-32000), nil, healthy},
		{"a question to the client", fault(mcp.CodeURLElicitation), nil, healthy},
		{"an internal error", fault(mcp.CodeInternal), nil, suspect},

		{"silence", mcp.Answer{}, failure(mcp.FailTimeout, server, delivered), suspect},
		{"silence before the call was sent", mcp.Answer{}, failure(mcp.FailTimeout, server), suspect},
		{"a reset, a process that exits", mcp.Answer{}, failure(mcp.FailUnavailable, server, delivered), faulted},
		{"no connection", mcp.Answer{}, failure(mcp.FailUnavailable), neutral},
		{"HTTP 500", mcp.Answer{}, failure(mcp.FailProtocol, server, delivered, status(500)), faulted},
		{"HTTP 502", mcp.Answer{}, failure(mcp.FailProtocol, server, delivered, status(502)), faulted},
		{"HTTP 503 without Retry-After", mcp.Answer{}, failure(mcp.FailProtocol, server, delivered, status(503)), faulted},
		{"HTML with 200", mcp.Answer{}, failure(mcp.FailProtocol, server, delivered), faulted},
		{"HTML with 400", mcp.Answer{}, failure(mcp.FailProtocol, delivered, status(400)), neutral},
		{"HTML with 404", mcp.Answer{}, failure(mcp.FailProtocol, delivered, status(404)), neutral},
		{"HTTP 429 without Retry-After", mcp.Answer{}, failure(mcp.FailProtocol, delivered, status(429)), neutral},
		{"429 with Retry-After", mcp.Answer{}, failure(mcp.FailBusy, status(429)), neutral},
		{"an answer that the parser refuses", mcp.Answer{}, failure(mcp.FailProtocol, server, func(f *mcp.Failure) { f.Err = mcp.Errorf(mcp.CodeParse, "no") }), faulted},
		{"no place", mcp.Answer{}, failure(mcp.FailBusy), neutral},
		{"a header that it refuses", mcp.Answer{}, failure(mcp.FailProtocol, func(f *mcp.Failure) { f.Err = mcp.Errorf(mcp.CodeHeaderMismatch, "no") }), neutral},
		{"an answer too large", mcp.Answer{}, failure(mcp.FailTooLarge, server, delivered), neutral},
		{"no credential", mcp.Answer{}, failure(mcp.FailLogin), neutral},
		{"switched off", mcp.Answer{}, failure(mcp.FailDisabled), neutral},
		{"its own connection gone", mcp.Answer{}, failure(mcp.FailGone), neutral},

		{"cancelled by the client", mcp.Answer{}, context.Canceled, neutral},
		{"the client's own deadline", mcp.Answer{}, context.DeadlineExceeded, neutral},
		{"ended by the gateway", mcp.Answer{}, refusal.ShutDown, neutral},
		{"a refusal on the way", mcp.Answer{}, &refusal.Error{Kind: "denied"}, neutral},
		{"a failure in other words", mcp.Answer{}, fmt.Errorf("call: %w", failure(mcp.FailTimeout, server)), suspect},
		{"anything else", mcp.Answer{}, errors.New("x"), neutral},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := classify(&tt.answer, tt.err); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
