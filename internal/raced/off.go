//go:build !race

package raced

// On tells whether the race detector runs.
const On = false
