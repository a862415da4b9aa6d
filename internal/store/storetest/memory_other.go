//go:build !linux

package storetest

// memory returns "": the server uses the folder for temporary files.
func memory() string { return "" }
