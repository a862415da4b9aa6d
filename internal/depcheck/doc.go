// Package depcheck holds the rules of this module that no compiler checks, as tests:
// which package may import which and why, one package comment per package, no package
// with an empty name such as util, and no test that waits for real time to pass.
//
// The table of imports is in rules_test.go. A new package, or a new import between
// packages, needs a line there, with its reason. The package contains only tests.
package depcheck
