// Package shared lets several links use one process of a stdio server, such as those of
// several gateways.
//
// A [Host] has the servers whose processes may run here. [Host.Join] opens a link to the
// process of a server. The first link starts the process, and the end of the last link ends
// it. For the process all links are one client: the host numbers their request ids and
// progress tokens anew, the first link initializes the process, and all links get what it
// sends beside its answers. The client declares no capabilities, so the process asks nothing.
package shared
