// Package spicedb is the phase of the gate that asks who is related to what:
// may user:alice execute tool:gh__search?
//
//	             hit: no round trip
//	Check ──► generation ──────────────────────────► allow, deny
//	             │ miss                                  ▲
//	             └──► breaker ──► SpiceDB, own deadline ──┘
//	             ▲
//	Run: Watch ──┴── each event drops the whole generation
//
// [Phase] asks a SpiceDB through authzed-go, [Builtin] answers the same
// question from configuration. Both speak of objects as a [Mapping] names
// them. Only HAS_PERMISSION allows; everything else, an error included, denies.
//
// What is cached between calls is one immutable generation behind an atomic
// pointer. It is filled by reads at least as fresh as the last event of the
// Watch stream, and an event drops it whole. Where the stream is broken nothing
// is cached and every read is fully consistent.
//
// The package does not write the schema, and it writes no relationship but
// those of [Phase.Sync].
package spicedb
