// Package child runs processes: it starts a program as the leader of a group of its
// own, asks the group to end or kills it, waits for it, and sees that nothing of it is
// left when this process ends, however that ends (package orphan).
//
// [Group] is what all of them share. A [Process] is a Group with three pipes, whose
// last lines on standard error are kept. A plugin and a confined program end in their
// own order, and use a Group. [Pipes], [Lines] and [Output] are the standard files and
// what is kept of an output.
//
// docs/adr/0039 says what starts processes without this package, and why.
package child
