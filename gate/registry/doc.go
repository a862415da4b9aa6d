// Package registry is the phase of the gate that knows every capability: which ones
// are disabled, for whom, and which definition was accepted.
//
//	servers --Record--> definitions: new, changed, gone --> store
//	store --generations--> tables --+
//	servers' lists ------------------+--> view (one pointer) <-- Check
//
// The store is the truth, shared by all replicas. Decisions use a [view] in memory and
// nothing else. The view is rebuilt whenever the tables, the lists of the servers or
// the settings change. A view that could not be compared with the store for too long
// denies everything.
//
// A capability is served only with a definition that is accepted here. Definitions are
// compared by the SHA-256 of their canonical form. A list is recorded before any client
// sees it, so that a server cannot slip in another definition between two lists.
//
// The phase only restricts. It denies or abstains, and never replaces the phases that
// grant access.
package registry
