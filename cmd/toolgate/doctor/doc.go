// Package doctor finds out what keeps a configuration from working, and says what
// to do about it.
//
// Every kind of finding has a code that never changes its meaning, in one table
// from which docs/doctor.md is written. The checks here look at one thing each: a
// program, an address, a token, a certificate, a folder. Which things there are
// is told by whoever knows the configuration.
package doctor
