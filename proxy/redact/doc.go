// Package redact removes secrets from JSON values and texts: known values, tokens that
// are recognised by their shape, and matches of an operator's regular expressions. A
// [Redactor] is one set of rules; [Messages] applies it to the messages of MCP servers.
//
//	JSON ── every string, unescaped ── rules ── spans, merged ──► the same JSON with marks
//
// A mark names the rule and reveals nothing of the secret. Bytes around a mark are
// kept; where nothing is found the same bytes are returned. Strings are searched in
// their decoded form, so that an escape hides nothing.
//
// # What it is not
//
// It is a filter against accidents: a log with a token in it, a file with a key. It
// does not find a secret that is split, encrypted, compressed, spelled out or encoded
// in a way that is not listed at [Options.Secrets]. Data that must stay secret must not
// be within reach of the server.
package redact
