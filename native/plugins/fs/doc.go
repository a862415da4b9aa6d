// Package fs has the tools for files: read_file, list_directory, write_file and
// delete_file, within configured folders.
//
// Package [github.com/toolgate/toolgate/native/plugins/files] enforces the rules for
// paths; this package has only the tools.
package fs
