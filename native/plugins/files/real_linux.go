package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// openReal opens a file or folder of a root for reading, without waiting for a writer,
// and returns its real path, which the system knows for open files.
func openReal(r *root, rel string, folder bool) (*os.File, string, error) {
	flag := os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY
	if folder {
		flag |= syscall.O_DIRECTORY
	}
	f, err := r.dir.OpenFile(rel, flag, 0)
	if err != nil {
		return nil, "", err
	}
	real, err := realPath(f)
	if err != nil {
		f.Close()
		return nil, "", err
	}
	return f, real, nil
}

// realPath returns the path of an open file or folder, without links.
func realPath(f *os.File) (string, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return "", err
	}
	var real string
	var failed error
	if err := raw.Control(func(fd uintptr) {
		real, failed = os.Readlink("/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10))
	}); err != nil {
		return "", err
	}
	if failed != nil {
		return "", fmt.Errorf("find its real path: %w", failed)
	}
	// The path of a deleted file, or of one outside of the process's root, has a remark
	// in its name. At that path is nothing, or something else.
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	there, err := os.Lstat(real)
	if err != nil || !filepath.IsAbs(real) || !os.SameFile(info, there) {
		return "", errChanged
	}
	return real, nil
}

// noFiles are file systems without stored files: reads return data made by the kernel,
// and writes change the kernel.
var noFiles = map[uint32]string{
	0x9fa0: "proc", 0x62656572: "sysfs", 0x1cd1: "devpts", 0x27e0eb: "cgroup", 0x63677270: "cgroup2",
	0x64626720: "debugfs", 0x74726163: "tracefs", 0x73636673: "securityfs", 0xcafe4a11: "bpf",
	0xf97cff8c: "selinux", 0x42494e4d: "binfmt_misc", 0x62656570: "configfs", 0x6e736673: "nsfs",
	0x19800202: "mqueue", 0x6165676c: "pstore", 0xde5e81e4: "efivarfs", 0x65735543: "fusectl",
}

// onDisk refuses anything on a file system without stored files, wherever it is
// mounted.
func onDisk(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var of syscall.Statfs_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Fstatfs(int(fd), &of) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("find its file system: %w", failed)
	}
	if name, ok := noFiles[uint32(of.Type)]; ok {
		return errors.New("it is on a file system of the kernel, " + name)
	}
	return nil
}
