// Package version holds the version of toolgate.
package version

// Version is set when a release is built. `go install` of a tagged version sets it too,
// from what the go command records.
var Version = development
