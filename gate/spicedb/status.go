package spicedb

import (
	"sync"
	"time"
)

// The reasons of decisions that could not be made, which deny.
const (
	// ReasonUnavailable is the reason when SpiceDB does not answer in time.
	ReasonUnavailable = "authz_unavailable"
	// ReasonMisconfigured is the reason when it answers that it cannot be asked
	// this: another schema, a bad token.
	ReasonMisconfigured = "authz_misconfigured"
)

// Status is the health of the phase.
type Status struct {
	OK     bool
	Reason string    // [ReasonUnavailable] or [ReasonMisconfigured]; empty when OK
	Since  time.Time // of OK and Reason as they are
	Detail string    // for a person: what is wrong, and what to do
	// Watching tells whether the Watch stream stands, so that decisions are
	// cached between calls. It is not needed for OK.
	Watching bool
}

// condition is one of the two things that Status is made of.
type condition struct {
	reason, detail string
	since          time.Time
}

// set changes the condition; since stays while the reason does.
func (c *condition) set(reason, detail string) {
	if c.reason != reason || c.since.IsZero() {
		c.since = time.Now()
	}
	c.reason, c.detail = reason, detail
}

// health is what is known of the server. The zero health is not OK.
type health struct {
	mu     sync.Mutex
	reach  condition // whether it answers us, by every question
	schema condition // whether it knows our question, by the probe
}

// answered notes how a question ended; nil is an answer.
func (h *health) answered(err *Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.reach.set("", "")
	case err.Reason == ReasonUnavailable || err.refused():
		h.reach.set(err.Reason, err.Error())
	default:
		// It answers. That one question fits the schema badly is told by the
		// probe, which asks what everyone needs.
		h.reach.set("", "")
	}
}

// probed notes whether the schema has what the phase asks for.
func (h *health) probed(problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if problem == "" {
		h.schema.set("", "")
		return
	}
	h.schema.set(ReasonMisconfigured, problem)
}

// status tells what is known.
func (h *health) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.reach.since.IsZero():
		return Status{Reason: ReasonUnavailable, Detail: "SpiceDB has not been asked yet"}
	case h.reach.reason != "":
		return Status{Reason: h.reach.reason, Since: h.reach.since, Detail: h.reach.detail}
	case h.schema.reason != "":
		return Status{Reason: h.schema.reason, Since: h.schema.since, Detail: h.schema.detail}
	}
	since := h.reach.since
	if h.schema.since.After(since) {
		since = h.schema.since
	}
	return Status{OK: true, Since: since}
}
