package proxy

import (
	"bytes"
	"errors"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// maxHeard is how many log messages of a call are kept for the case that it
	// gets no answer, and maxHeardBytes how large one of them may be, or the
	// message of its progress.
	maxHeard, maxHeardBytes = 16, 1 << 10
)

// heardSoFar is what a server has said of a call before its answer, as far as its
// client asked to hear it. It is bounded and safe for concurrent use.
type heardSoFar struct {
	mu       sync.Mutex
	progress []byte   // params of the latest progress notification
	log      [][]byte // data of the latest log messages, raw, the oldest first
}

// note keeps a notification that was passed on to the client.
func (h *heardSoFar) note(method string, params []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch method {
	case mcp.NotifyProgress:
		if message := mcp.Lookup(params, "message"); len(message) > maxHeardBytes {
			params = mcp.RemoveMember(params, "message")
		}
		h.progress = bytes.Clone(params)
	case mcp.NotifyMessage:
		data := mcp.Lookup(params, "data")
		if data == nil || len(data) > maxHeardBytes {
			return
		}
		if len(h.log) == maxHeard {
			copy(h.log, h.log[1:])
			h.log = h.log[:maxHeard-1]
		}
		h.log = append(h.log, bytes.Clone(data))
	}
}

// object is all of it as one JSON object, nil when there is nothing.
func (h *heardSoFar) object() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []byte
	if len(h.log) > 0 {
		list := append([]byte("["), bytes.Join(h.log, []byte(","))...)
		out = mcp.SetMember(out, "log", append(list, ']'))
	}
	for _, name := range [...]string{"message", "total", "progress"} { // each is put in front
		if value := mcp.Lookup(h.progress, name); value != nil {
			out = mcp.SetMember(out, name, value)
		}
	}
	return out
}

// partly is the error of a call that timed out, with what its server had said of
// it. Every other error is returned as it is. 2025-11-25 basic/lifecycle
// (Timeouts) leaves to the requester what it makes of such a call.
func (h *heardSoFar) partly(err error) error {
	var failure *mcp.Failure
	var refused *refusal.Error
	if !errors.As(err, &failure) || failure.Kind != mcp.FailTimeout || errors.As(err, &refused) {
		return err
	}
	said := h.object()
	if said == nil {
		return err
	}
	return refusal.Partly(failure, err, said)
}
