// Package signin is how people sign in to the servers behind a gateway: the pages that
// a browser sees, the links that lead to them, the commands that do the same from a
// terminal, and the credentials that are kept, sealed, of whoever has signed in.
package signin
