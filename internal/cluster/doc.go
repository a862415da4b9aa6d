// Package cluster lets gateways that share a database know one another, and passes requests
// from the gateway that got them to the one that they belong to.
//
// Each gateway is a [Member]: a row in the database with a lease by the database's clock.
// Members talk over HTTP with mutual TLS. The certificates are signed by an authority that
// each member derives from the sealing keys, so that a program without these keys can
// neither ask nor answer. A request is passed on once, as the client sent it and with the
// client's own credential. The member that it belongs to authenticates the client again and
// decides. If the client has shown a certificate, that member trusts the other one in a single
// point: that the client has the key of the certificate. See
// docs/adr/0052-more-than-one-gateway.md.
package cluster
