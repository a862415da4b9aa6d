package proxy

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/proxy/refusal"
)

// cutTime bounds the wait for calls that were cut to answer their clients.
const cutTime = 2 * time.Second

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
	cut = g.CancelCalls(func(*RunningCall) *refusal.Error { return refusal.Cut })
	timer := time.NewTimer(cutTime)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
	return cut
}
