// Package stream holds messages on their way to a client. A bounded [Queue] feeds the
// goroutine that writes to the client. A [Store] keeps the events of responses, so that
// a client can resume a broken stream.
package stream
