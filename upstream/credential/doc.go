// Package credential is what the gateway shows servers to authenticate: tokens
// that people signed in for, that an authorization server gave to the gateway or
// traded for somebody's identity, and keys that people entered. One [Source] is of
// one server; it hands out headers, renews what expires, and says who has to sign
// in. A [Flow] brings people there and back.
//
// Where credentials are kept, and who may be reached on the way, is handed in.
package credential
