// Package version knows which version of toolgate this is.
package version

// Version is set when a release is built.
var Version = "0.1.0-dev"
