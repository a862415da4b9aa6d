// Package catalogs keeps the last good catalog of every server in the store, so that the
// next start can offer it at once. A catalog that comes back is served only when it is
// genuine: the store holds it, the gateway's key authenticates it.
package catalogs
