// Package inprocess makes a plugin of an MCP server that runs in the same process,
// whichever library the server is written with. The messages stay JSON, so that a number
// of a result arrives with all its digits.
package inprocess
