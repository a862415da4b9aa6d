// Package version holds what a release stamps.
package version

// Version is set when a release is built.
var Version = "0.1.0-dev"
