// Package identity is who may use a running gateway: the identities that its
// configuration makes, the ones in force, and the tokens that callers were let in by,
// for servers at which those are traded.
package identity
