//go:build !e2e

package examples_test

const network = false
