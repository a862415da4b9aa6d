//go:build amd64 || arm64

package shim

import (
	"syscall"
	"unsafe"
)

// System calls that package syscall lacks; all machines number them alike.
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysCloseRange   = 436
	sysOpenat2      = 437
	sysMountSetattr = 442
)

// Flags of the calls above.
const (
	oPath           = 0x200000
	atFdcwd         = -100
	atEmptyPath     = 0x1000
	atRecursive     = 0x8000
	openTreeClone   = 1
	moveFromEmpty   = 4
	mountReadOnly   = 1
	mountNoSUID     = 2
	mountNoDev      = 4
	resolveNoLinks  = 4
	resolveNoMagic  = 2
	closeRangeCloex = 4
)

// openExact opens a real path. It fails if the path contains a link by now, because
// that is not the granted file.
func openExact(path string) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, fault(path, err)
	}
	how := struct{ flags, mode, resolve uint64 }{flags: oPath | syscall.O_CLOEXEC, resolve: resolveNoLinks | resolveNoMagic}
	cwd := atFdcwd
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(cwd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if errno != 0 {
		return -1, fault("opening "+path, errno)
	}
	return int(fd), nil
}

// mountAttributes adds attributes to a mount and, if recursive, to all below it.
func mountAttributes(fd int, set uint64, recursive bool) error {
	attributes := struct{ set, clear, propagation, userns uint64 }{set: set}
	flags := uintptr(atEmptyPath)
	if recursive {
		flags |= atRecursive
	}
	empty := [1]byte{}
	_, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(fd), uintptr(unsafe.Pointer(&empty)),
		flags, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// mounted is a grant that is not yet attached to the new root.
type mounted struct {
	Grant
	tree int // a detached copy of its mounts
	dir  bool
}

// newRoot gives the process a file system with nothing but the grants. Only writable
// grants can be changed; elsewhere not even modes and times can change, and no sockets
// are reachable. The process must have its own user and mount namespaces.
func (p *Plan) newRoot(opened []int) error {
	const doing = "building the file system"
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fault(doing, err)
	}
	trees, err := p.trees(opened)
	if err != nil {
		return err
	}
	const root = "size=1m,mode=755"
	if err := syscall.Mount("toolgate", p.NewRoot, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, root); err != nil {
		return fault(doing+": mounting its root", err)
	}
	if err := syscall.Chdir(p.NewRoot); err != nil {
		return fault(doing, err)
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return fault(doing+": "+t.Path, err)
		}
	}
	for _, l := range p.Links {
		if err := makeFolders(l.Path); err != nil {
			return fault(doing+": "+l.Path, err)
		}
		if err := syscall.Symlink(l.Target, l.Path[1:]); err != nil && err != syscall.EEXIST && err != syscall.EROFS {
			return fault(doing+": "+l.Path, err)
		}
	}
	if err := p.newProc(); err != nil {
		return err
	}
	here, err := syscall.Open(".", oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fault(doing, err)
	}
	if err := mountAttributes(here, mountReadOnly, false); err != nil {
		return fault(doing, err)
	}
	_ = syscall.Close(here)
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fault(doing+": entering it", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fault(doing+": leaving the old one", err)
	}
	return syscall.Chdir("/")
}

// trees copies the mounts of the grants. A grant inside another one comes with it,
// unless it is a device, or is writable and the other is not. The grants are sorted by
// path, so that a folder comes before its content.
func (p *Plan) trees(opened []int) ([]mounted, error) {
	var trees []mounted
	for i, g := range p.Grants {
		around := Grant{}
		for _, t := range trees {
			if Inside(g.Path, t.Path) {
				around = t.Grant
			}
		}
		if around.Path != "" && g.Access&Device == 0 && (around.Access&Write != 0 || g.Access&Write == 0) {
			continue
		}
		var stat syscall.Stat_t
		if err := syscall.Fstat(opened[i], &stat); err != nil {
			return nil, fault(g.Path, err)
		}
		empty := [1]byte{}
		fd, _, errno := syscall.Syscall(sysOpenTree, uintptr(opened[i]), uintptr(unsafe.Pointer(&empty)),
			openTreeClone|atEmptyPath|atRecursive|syscall.O_CLOEXEC)
		if errno != 0 {
			return nil, fault("copying the mount of "+g.Path, errno)
		}
		set := uint64(mountNoSUID)
		if g.Access&Write == 0 {
			set |= mountReadOnly // a device stays writable, but its mode cannot change
		}
		if g.Access&Device == 0 {
			set |= mountNoDev
		}
		if err := mountAttributes(int(fd), set, true); err != nil {
			return nil, fault("restricting the mount of "+g.Path, err)
		}
		trees = append(trees, mounted{g, int(fd), stat.Mode&syscall.S_IFMT == syscall.S_IFDIR})
	}
	return trees, nil
}

// attach mounts a grant at its place below the current folder.
func (t mounted) attach() error {
	if err := makeFolders(t.Path); err != nil {
		return err
	}
	name := t.Path[1:]
	if t.dir {
		if err := syscall.Mkdir(name, 0o755); err != nil && err != syscall.EEXIST && err != syscall.EROFS {
			return err
		}
	} else {
		fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o644)
		if err == nil {
			_ = syscall.Close(fd)
		} else if err != syscall.EEXIST && err != syscall.EROFS {
			return err
		}
	}
	target, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	empty := [1]byte{}
	cwd := atFdcwd
	_, _, errno := syscall.Syscall6(sysMoveMount, uintptr(t.tree), uintptr(unsafe.Pointer(&empty)),
		uintptr(cwd), uintptr(unsafe.Pointer(target)), moveFromEmpty, 0)
	_ = syscall.Close(t.tree)
	if errno != 0 {
		return errno
	}
	return nil
}

// makeFolders makes the parent folders of path, below the current one.
func makeFolders(path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if err := syscall.Mkdir(path[1:i], 0o755); err != nil && err != syscall.EEXIST && err != syscall.EROFS {
			return err
		}
	}
	return nil
}

// newProc mounts a proc that shows only the processes of this confinement, and limits
// their number.
func (p *Plan) newProc() error {
	const doing, name = "mounting proc", "proc"
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	if p.MaxPID != 0 {
		if err := syscall.Mkdir("pids", 0o755); err != nil {
			return fault(doing, err)
		}
		if err := syscall.Mount(name, "pids", name, flags, ""); err != nil {
			return fault(doing, err)
		}
		if err := writeFile("pids/sys/kernel/pid_max", itoa(p.MaxPID)); err != nil {
			return fault("limiting process identifiers", err)
		}
		if err := syscall.Unmount("pids", syscall.MNT_DETACH); err != nil {
			return fault(doing, err)
		}
	}
	if p.Proc == 0 {
		return nil
	}
	if err := syscall.Mkdir(name, 0o755); err != nil && err != syscall.EEXIST {
		return fault(doing, err)
	}
	if err := syscall.Mount(name, name, name, flags|syscall.MS_RDONLY, "subset=pid"); err != nil {
		return fault(doing, err)
	}
	return nil
}

func writeFile(name, text string) error {
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte(text))
	_ = syscall.Close(fd)
	return err
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// Inside reports whether path is folder or inside it. Both are clean.
func Inside(path, folder string) bool {
	if folder == "/" {
		return true
	}
	return len(path) >= len(folder) && path[:len(folder)] == folder &&
		(len(path) == len(folder) || path[len(folder)] == '/')
}
