//go:build e2e && unix && !race

package e2e

const raceEnabled = false
