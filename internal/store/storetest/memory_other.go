//go:build !linux

package storetest

// memory returns "": the files of a server are where other temporary files are.
func memory() string { return "" }
