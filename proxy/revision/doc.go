// Package revision renders results, sampling requests and listed items for clients of
// older revisions of MCP: [Message] and [Item]. Its functions are pure. They never
// modify their input, and return it as it is when the client can take it.
package revision
