// Package agents runs the agents of a gateway for its callers, and keeps their runs in the
// store.
//
//	a call ── claimed in the store ── its steps ── its end is recorded
//	a dead gateway's run ── claimed by another ── its steps go on
//
// A run is worked on by the gateway that has its claim. While its caller is on the line,
// its calls are made within that call. A run whose gateway has died is taken over where
// the rights of its caller can be looked up at any time; otherwise it waits for its caller
// to come back.
package agents
