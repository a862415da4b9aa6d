// Package logs is where the log goes: lines for people on a terminal, JSON
// elsewhere. What comes from clients and servers cannot move a terminal's cursor
// or hide a line, and configured secrets and what looks like a credential are
// taken out of every line.
package logs
