// Package mcp is the wire core of toolgate: the vocabulary of the Model
// Context Protocol and the handling of its messages as raw bytes.
//
// A message is checked once, strictly, and kept as it came. What the gateway
// reads is found by spans into those bytes; what it changes is spliced; all
// else reaches the other side byte for byte. Unknown fields, 64-bit integers,
// key order and error data therefore survive, and what a policy judges is what
// is delivered.
//
//	bytes ── Parse ──► Message ── spans ──► params, result, id, method
//	                                │
//	                                └─ Splice / RewriteMeta ──► bytes for the next hop
//
// The package depends on the standard library alone, starts no goroutine and
// keeps no state but pools of scratch memory.
package mcp
