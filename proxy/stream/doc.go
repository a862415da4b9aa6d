// Package stream holds what is on its way to a client: a bounded [Queue] of messages in
// front of the goroutine that writes them, and a [Store] of the events of answers that
// a client may come back for.
package stream
