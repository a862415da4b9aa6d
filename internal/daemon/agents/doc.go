// Package agents runs the agents of a gateway for its callers, and keeps their runs in the
// store.
//
//	a call ── claimed in the store ── its steps ── its end is recorded
//	a dead gateway's run ── claimed by another ── its steps go on
//
// The gateway that has the claim of a run works on it. While the caller waits for the answer,
// the calls of the run belong to the caller's call. When the gateway dies, another one takes
// the run over if it can look up the rights of the caller; otherwise the run waits until its
// caller comes back.
package agents
