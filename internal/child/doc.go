// Package child runs processes: it starts a program as the leader of a group of its
// own, asks the group to end or kills it, waits for it, and sees that nothing of it is
// left when this process ends, however that ends (package orphan).
//
// [Group] is what all of them share. A [Process] is a Group with three pipes, whose
// last lines on standard error are kept. A plugin and a confined program have pipes
// and an end of their own, and use a Group.
//
// What stays elsewhere, and why: the shim of internal/sandbox and the guardian of
// internal/orphan are entered before the rest of a program is initialised, and import
// next to nothing. The guardian is started for all children and must survive a group,
// so none is made for it. What a run leaves behind outside of its group
// (native/plugins/code) is found among the children of a whole process. Programs that
// tools and tests run to their end need os/exec alone.
package child
