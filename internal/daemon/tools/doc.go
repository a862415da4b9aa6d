// Package tools manages the tools that are declared outside of the configuration file.
// For each address, the last good document is in force, from a copy that the gateway's
// key authenticates. A changed document waits for a person. Tools in the store are
// sealed, so that write access to the store does not decide what runs.
package tools
