// Package egress makes HTTP requests whose address came from outside: from a
// model, a document, a redirect, another server's metadata.
//
// A [Policy] says where a request may lead. The address is checked when a
// connection is about to be made, after names were resolved, so that no name, no
// redirect and no answer of a name server leads to this machine, its neighbours
// or the metadata service of a cloud. Environment proxies are not used, no cookie
// is kept, and nothing of a refused address but its host is repeated.
package egress
