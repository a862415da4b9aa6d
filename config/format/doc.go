// Package format reads JSON with comments, YAML and TOML into a tree whose values know
// their lines. A file that is too large or nests too deep is refused, and so is one with
// a key twice.
package format
