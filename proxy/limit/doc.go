// Package limit bounds what clients make a gateway hold and do: [Bytes] of their
// messages, [Conns], calls that run and wait ([Concurrency], [Principals]), how often
// they ask for something ([Requests]), [Failures] to authenticate and [Loops] of the
// same call. Each limit is a type that owns its state and its lock.
package limit
