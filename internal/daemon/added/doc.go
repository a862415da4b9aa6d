// Package added keeps the servers that agents have added out of the operator's list:
// which they are is in the store, what each of them runs is in the configuration.
package added
