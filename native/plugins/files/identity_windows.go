package files

import "os"

// links is how many names a file has. The information of this system does not say;
// what is forbidden is recognised by its identity all the same.
func links(os.FileInfo) uint64 { return 1 }

func keepOwner(*os.File, os.FileInfo) {}
