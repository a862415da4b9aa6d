// Package fs is the tools for files: read_file, list_directory, write_file and
// delete_file, within configured folders.
//
// What is reached, and what is out of reach whatever is configured, is a matter of
// [github.com/toolgate/toolgate/native/plugins/files]; here are the tools alone.
package fs
