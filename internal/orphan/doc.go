// Package orphan makes sure that no child process outlives the gateway, even if the
// gateway ends by a crash, kill -9 or a shortage of memory (docs/adr/0037).
//
// On Unix a second process of the same program, the guardian, knows the children and
// kills those that are left when the gateway is gone. It is started with the first
// child, so a gateway without children needs none. On Windows the gateway is in a job
// object that ends with it.
//
// Start processes with [StartProcess], or call [Expect] before and [Child.Started]
// right after the start. Call [Child.Ended] once nothing of the child is left. Nothing
// is guarded until [Guard] was called. A guardian that cannot be started does not
// prevent children from starting.
package orphan
