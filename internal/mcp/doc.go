// Package mcp is toolgate's wire format: the vocabulary of the Model Context Protocol,
// and messages as raw bytes.
//
// [Parse] validates a message once, strictly, and keeps its bytes. Fields are read
// through spans into those bytes, and edits are spliced in. Everything else is
// forwarded byte for byte. So unknown fields, 64-bit integers, key order and error data
// survive, and policies judge exactly what is delivered.
//
//	bytes ── Parse ──► Message ── spans ──► params, result, id, method
//	                                │
//	                                └─ Splice / RewriteMeta ──► bytes for the next hop
//
// The package uses only the standard library, starts no goroutines and keeps no state
// except pools of scratch memory.
package mcp
