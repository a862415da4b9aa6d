// Package depcheck holds the rules of this module that no compiler checks, as
// tests: who may import whom and why, one package comment per package, no
// package named after nothing, and no test that waits for time to pass.
//
// The table of imports is in rules_test.go. A new package, or a new edge
// between packages, is a line there, with its reason. The package contains no
// code besides its tests.
package depcheck
