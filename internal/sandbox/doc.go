// Package sandbox confines processes: what they may read, write, reach and use up.
//
// A [Policy] says what is allowed. Everything else is forbidden. Which layers of the
// system enforce it (no_new_privs, resource limits, Landlock, seccomp, namespaces)
// depends on the machine, and is reported, never assumed.
package sandbox
