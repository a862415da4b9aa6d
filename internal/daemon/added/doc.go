// Package added manages the servers that agents have added from the operator's
// templates. The store records which servers were added; the configuration says what
// each of them runs.
package added
