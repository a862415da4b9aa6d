package upstream

import (
	"context"
	"errors"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// On a channel that principals share, it means nothing that a call is the only one in
// flight: the server may still talk about one that has ended.
func TestSharedChannelAttributesByTokenAlone(t *testing.T) {
	t.Parallel()
	for _, several := range []bool{false, true} {
		unowned := 0
		limits := (&Spec{}).withDefaults().Limits
		m := transport.NewMux(quietLog, limits.ofLink(), func(mcp.Message) { unowned++ })
		m.Several = several
		heard := 0
		req := &transport.Request{ID: "1", Askable: true, Arrived: func(mcp.Message) { heard++ }}
		deliver := func(raw string) {
			msg, err := mcp.Parse([]byte(raw), mcp.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			m.Deliver(msg)
		}
		_, err := m.RoundTrip(t.Context(), req, func([]byte) error {
			deliver(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of another"}}`)
			deliver(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"of another"}}`)
			deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			deliver(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			return nil
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		wantHeard, wantUnowned := 3, 0
		if several {
			wantHeard, wantUnowned = 1, 2
		}
		if heard != wantHeard || unowned != wantUnowned {
			t.Errorf("several %t: %d messages for the call, %d for nobody", several, heard, unowned)
		}
	}
}

// Only declared questions are asked, even if the stream tells which call they belong to.
func TestUndeclaredQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	c := &Conn{declared: []byte(`{"elicitation":{}}`)}
	for method, want := range map[string]bool{mcp.MethodElicit: true, mcp.MethodSampling: false, mcp.MethodRoots: false, "x": false} {
		if c.declares(method) != want {
			t.Errorf("%s: %t, want %t", method, !want, want)
		}
	}
}
