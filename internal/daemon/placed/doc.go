// Package placed decides at which of several gateways the process of a stdio server runs that
// all of them share, and reaches it there.
package placed
