// Package limit bounds what clients can make a gateway hold and do: the [Bytes] of
// their messages, connections ([Conns]), running and waiting calls ([Concurrency],
// [Principals]), request rates ([Requests]), failed authentications ([Failures]) and
// loops of the same call ([Loops]). Each limit is a type that owns its state and its
// lock.
package limit
