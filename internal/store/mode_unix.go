//go:build !windows

package store

import "io/fs"

// exposed reports whether a file of this mode is open to others than its
// owner.
func exposed(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }
