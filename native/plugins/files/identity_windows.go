package files

import "os"

// links returns the number of names of a file. This system does not report it;
// forbidden files are still recognised by their identity.
func links(os.FileInfo) uint64 { return 1 }

func keepOwner(*os.File, os.FileInfo) {}
