// Package version holds the version of toolgate.
package version

// Version is set when a release is built.
var Version = "0.1.0-dev"
