package proxy

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// cutTime bounds the wait for calls that were cut to answer their clients.
const cutTime = 2 * time.Second

var (
	// errEnding is the refusal of a call that comes when the gateway is about to
	// end.
	errEnding = &Refusal{
		Kind: "shutting_down", Code: codeUnavailable, Phase: "gateway", RetryAfter: 5 * time.Second,
		Text: "The gateway is shutting down and begins nothing new; try again in a few seconds.",
	}
	// errCut is that of one that had not ended when the gateway did: it is no
	// denial, its server may have done what it was asked for.
	errCut = &Refusal{
		Kind: "shutting_down", Code: codeUnavailable, Phase: "upstream", Origin: mcp.OriginHop, RetryAfter: 5 * time.Second,
		Text: "The gateway ended before this call was answered. What the call has done so far is done; find out before it is made again.",
	}
)

// Drain lets no call begin any more and waits until those under way have ended,
// as long as the context lasts; then the rest are ended, with an answer that says
// so. It returns how many those were. Calls that wait for their client are not
// waited for. It may be called once, before the context of [Gateway.Run] ends.
func (g *Gateway) Drain(ctx context.Context) (cut int) {
	empty := g.flights.close()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	cut = g.CancelCalls(func(*RunningCall) *Refusal { return errCut })
	timer := time.NewTimer(cutTime)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
	return cut
}
