// Package orphan sees that nothing of what a gateway has started runs on when the
// gateway ends without ending it: because of a crash, kill -9 or a shortage of
// memory (docs/adr/0037).
//
// On Unix a second process of the same program, the guardian, learns which children
// there are and kills what is left of them when the gateway is gone. It is started
// with the first child, so that a gateway without any costs nothing. On Windows the
// gateway is in a job of the system that ends with it.
//
// Whoever starts a process does it with [StartProcess], or calls [Expect] before and
// [Child.Started] right after, and calls [Child.Ended] once nothing of it is left.
// Nothing is guarded until [Guard] was called, and a guardian that cannot be started
// keeps nobody from starting anything.
package orphan
