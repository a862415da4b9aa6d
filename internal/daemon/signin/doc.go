// Package signin lets people sign in to the servers behind a gateway. It has the pages
// for browsers, the links to them, the commands that do the same in a terminal, and
// the sealed credentials that result.
package signin
