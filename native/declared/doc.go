// Package declared runs tools that are declared in a file instead of programmed: an
// HTTP request, a command, or steps that call other tools (package steps).
//
// A call only provides values for the placeholders of a template. A value never becomes
// another host, another path segment, another header, another argument or a flag, and
// no shell reads it. Everything else that is sent, such as a token, is fixed when the
// tool is created, and removed from every answer.
package declared
