// Package raced tells tests whether they run under the race detector. Loops whose count
// finds rare faults run in full there, and `make test` runs every test there.
package raced

// Times is how often something is done under the race detector, and how often otherwise.
func Times(raced, otherwise int) int {
	if On {
		return raced
	}
	return otherwise
}
