// Package child runs processes. It starts a program as the leader of its own process
// group, terminates or kills the group, waits for it, and makes sure that nothing of it
// outlives this process (package orphan).
//
// [Group] is the common base. A [Process] is a Group with three pipes, whose last lines
// on standard error are kept. Plugins and sandboxed programs use a Group directly.
// [Pipes], [Lines] and [Output] handle the standard files and captured output.
//
// docs/adr/0039 says what starts processes without this package, and why.
package child
