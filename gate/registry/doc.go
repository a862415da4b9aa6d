// Package registry is the phase of the gate that knows every capability: what
// is switched off, for whom, and which definition of it was accepted.
//
//	servers --Record--> definitions: new, changed, gone --> store
//	store --generations--> tables --+
//	servers' lists ------------------+--> view (one pointer) <-- Check
//
// The store is the truth, shared by all replicas. What decides is a [view] in
// memory that is made anew whenever the tables, the lists of the servers or the
// settings change; a decision reads it and nothing else. A view that could not
// be compared with the store for too long decides nothing any more.
//
// A capability is served only with a definition that is accepted here. The
// comparison is by the SHA-256 of the canonical form of what the server lists,
// so that an answer of the server between two lists cannot slip in another one:
// a list is recorded before anybody is shown it.
//
// The phase only restricts. It denies or abstains, so that it never stands in
// for the phases that say who may do what.
package registry
