// Package capsule is the phase of the gate that confines callers to named sets of
// capabilities.
//
// A capsule has two lists of globs over exposed names: the names that its holders may
// view, and those of them that they may call. Personas and groups determine the
// holders. A caller may hold several capsules. On the main endpoint it may do what any
// of them allows; on the endpoint of one capsule, what that one allows. A caller
// without capsules may view nothing.
package capsule
