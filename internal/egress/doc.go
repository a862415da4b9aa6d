// Package egress makes HTTP requests to addresses from outside: from a model, a
// document, a redirect, or another server's metadata.
//
// A [Policy] says where requests may lead, a [Guard] enforces it, and a [Client] makes
// the requests. The address is checked when a connection is about to be made, after
// names were resolved. So no name, redirect or name server can lead to this machine,
// its neighbours or the metadata service of a cloud. Environment proxies are not used,
// cookies are not kept, and errors contain nothing of a refused address but its host.
package egress
