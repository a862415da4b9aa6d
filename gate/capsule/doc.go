// Package capsule is the phase of the gate that confines callers to named sets
// of capabilities.
//
// A capsule is two lists of globs over exposed names: what those who hold it may
// view, and what of that they may call. Who holds it is said by personas and
// groups. A caller holds any number of them: on the main endpoint it may do what
// any of them allows, on the endpoint of one capsule what that one allows. Who
// holds none may view nothing.
package capsule
