// Package limit bounds what clients make a gateway hold: the bytes of their
// messages, and their connections. Each limit is a type that owns its state and
// its lock.
package limit
