// Package declared runs tools that a person has declared instead of written: an
// HTTP request, or a command.
//
// What a call brings are values for places in a template, and nothing more. A
// value never becomes another host, another path segment, another header,
// another argument or a flag; no shell reads it. What is sent besides, such as a
// token, is fixed when the tool is made, and taken out of every answer.
package declared
