package headroom

import "golang.org/x/sys/windows"

// space returns the user's free space on the disk of a folder, and the size of the
// disk, in bytes.
func space(dir string) (free, size uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, &size, nil)
	return free, size, err
}
