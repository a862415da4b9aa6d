// Package clients is what is known of the programs that toolgate serves: where
// their files are, how an entry in them is written, and what they can take.
//
// It is one table. `toolgate import`, `connect`, `lint` and `doctor` go by it, and
// the pages under docs/clients are written from it. What such a file says is read by
// package config/clients.
package clients
