// Package logs formats and filters the log: text for people on a terminal, JSON
// elsewhere. A [Writer] escapes text from clients and servers, so that it cannot
// control a terminal or hide a line. It removes configured secrets and anything that
// looks like a credential.
package logs
