// Package tools keeps the tools that are declared outside of the configuration file. Of
// each address of tools the last good document is in force, from a copy that the
// gateway's key authenticates; one that has changed waits for a person. Tools in the
// store are sealed, so that who writes there does not choose what runs.
package tools
