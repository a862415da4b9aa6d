// Package gate decides who may see and call what.
//
// A [Chain] asks its phases in order; the first deny ends, no allow means
// deny, and an error means deny. The zero value of everything here denies. The
// same chain answers for lists and for calls, so that the two cannot disagree.
package gate
