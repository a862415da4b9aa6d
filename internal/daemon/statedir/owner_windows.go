package statedir

import "io/fs"

// ownedBy relies on the folder for temporary files, which on Windows is each
// user's own.
func ownedBy(fs.FileInfo, int) bool { return true }
