// Package shared lets several links use one process of a stdio server, such as those of
// several gateways.
//
// A [Host] has the servers whose processes may run here. [Host.Join] opens a link to the
// process of one; the first link starts it, the end of the last one ends it. To the process
// all links are one client: their request ids and progress tokens are numbered anew, what it
// says beside its answers goes to all of them, and it is initialized once, by the first.
// Such a client declares no capabilities, so the process asks nothing.
package shared
