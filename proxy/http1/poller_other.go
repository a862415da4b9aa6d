//go:build !linux

package http1

// poller waits for no connection here: a goroutine reads from each.
type poller struct{}

func (*poller) add(*watch) uint64 { return 0 }

func (*poller) remove(*watch) {}

func (*poller) read(*watch) (first byte, n int, waits bool) { return 0, 0, false }

func (*poller) end() {}
