// Package redact takes secrets out of JSON values and of texts: values that are
// known, tokens that are known by their shape, and what an operator's regular
// expressions find.
//
//	JSON ── every string, escapes undone ── rules ── spans, merged ──► the same JSON with marks
//
// A mark names the rule and nothing of what stood there. Bytes around a mark are
// kept; where nothing is found the very same bytes come back. A string is read as
// its reader will read it, so that an escape hides nothing.
//
// # What it is not
//
// It is a filter against accidents: a log with a token in it, a file with a key.
// It does not see a secret that is cut in two, encrypted, compressed, spelled out
// or encoded in a way that is not listed at [Options.Secrets]. What must not be
// read must not be within reach of the server.
package redact
