package store

import "io/fs"

// exposed reports whether a file of this mode is open to others than its
// owner. Windows keeps that in access lists, which a file inherits from its
// folder; the mode bits say nothing about it.
func exposed(fs.FileMode) bool { return false }
