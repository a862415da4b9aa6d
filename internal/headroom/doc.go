// Package headroom watches the resources of a process: memory against a limit, and free
// disk space. A [Watcher] reads [Meter]s at intervals and reports a [Shortage]. A
// reading must last for some time before a shortage begins. It must be clear of the
// threshold by a margin, for longer, before the shortage ends. So neither a single peak
// nor a single good reading counts.
//
// Users of the package decide what a shortage leads to.
package headroom
