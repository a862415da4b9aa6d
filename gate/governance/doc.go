// Package governance holds an operator's rules about calls: the allowed paths,
// commands, sizes and texts of a tool's arguments, its risk, and what that means in
// the gateway's operating mode.
//
//	Call ── mode and class ── size ── paths ── commands ── patterns ── approval ──► Verdict
//
// The first deny ends the check; every rule that matches a tool's exposed name must
// allow the call. A deny names its rule and what would change it. The zero values of
// all types here deny.
//
// # What the path rules are
//
// Path rules filter text. The gateway sees the argument of a tool that runs elsewhere,
// not the file that the tool opens. It knows neither the links in that file system,
// nor the working directory, nor what else the tool does with the text. An argument is
// therefore read in every way that a tool may read it: as it is, as a file URI, with
// its percent encoding decoded repeatedly, with the home directory filled in, with
// back slashes as separators, and so on. A forbidden path denies if any reading is
// under it. An allowed path counts only if all readings are under it. That stops
// mistakes and simple evasion. It is no sandbox: where the files matter, the server
// needs one.
//
// Path rules do not see: symbolic and hard links, names that a tool builds from
// several arguments or expands from wildcards, short (8.3) names, Unicode normal forms
// other than the rule's own, and recursive operations on a folder above a forbidden
// one.
package governance
