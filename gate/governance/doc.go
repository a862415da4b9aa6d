// Package governance holds an operator's rules about calls: which paths,
// commands, sizes and texts a tool may be called with, how risky it is, and
// what that means in the gateway's operating mode.
//
//	Call ── mode and class ── size ── paths ── commands ── patterns ── approval ──► Verdict
//
// The first deny ends; every rule that matches a tool's exposed name has to
// let the call pass. A deny says which rule it is from and what would change
// it. The zero values of everything here deny.
//
// # What the path rules are
//
// They are a filter on text. The gateway sees the argument of a tool that runs
// elsewhere, and not the file that the tool opens: it knows neither the links
// in that file system, nor the working directory, nor what else the tool does
// with the text. An argument is therefore read in every way that a tool may
// read it (as it is, as a file URI, with its percent encoding undone again and
// again, with the home directory filled in, with back slashes as separators,
// and so on); a forbidden path denies if any of the readings is under it, an
// allowed one counts only if all of them are. That stops mistakes and simple
// evasion. It is no sandbox: where the files matter, the server needs one.
//
// What it does not see: symbolic and hard links, names that a tool makes of
// several arguments or expands from wildcards, short (8.3) names, other
// normal forms of Unicode than the one that the rule is written in, and a
// recursive operation on a folder above a forbidden one.
package governance
