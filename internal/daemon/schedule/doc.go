// Package schedule makes the calls that callers have planned, each at its time and at
// most once.
//
//	planned ─ claimed in the store ─ who is it now ─ the call ─ its end is recorded
//
// The claim is committed before anything else is done for the call, and no state leads
// back. So a gateway that dies at any moment leaves a call that was not made, or one of
// which nobody knows, and never one that is made again. Gateways that share a store take
// the calls from one another in the same way.
package schedule
