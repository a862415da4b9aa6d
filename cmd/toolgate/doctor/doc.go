// Package doctor finds out what keeps a configuration from working, and says how to fix
// it.
//
// Every kind of finding has a code that never changes its meaning. One table holds all
// codes; docs/doctor.md is generated from it. Each check here examines one thing: a
// program, an address, a token, a certificate, a folder. The caller, who knows the
// configuration, chooses what to check.
package doctor
