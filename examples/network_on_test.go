//go:build e2e

package examples_test

// network tells that the tests may use the network.
const network = true
