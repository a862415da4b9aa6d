//go:build amd64 || arm64

package shim

import (
	"syscall"
	"unsafe"
)

// The system calls of Landlock.
const (
	sysLandlockCreate   = 444
	sysLandlockAdd      = 445
	sysLandlockRestrict = 446
)

// Landlock's access rights for files.
const (
	fsExecute = 1 << iota
	fsWriteFile
	fsReadFile
	fsReadDir
	fsRemoveDir
	fsRemoveFile
	fsMakeChar
	fsMakeDir
	fsMakeReg
	fsMakeSock
	fsMakeFIFO
	fsMakeBlock
	fsMakeSym
	fsRefer    // since version 2
	fsTruncate // since version 3
	fsIoctlDev // since version 5

	fsVersion1 = fsRefer - 1
	forFiles   = fsExecute | fsWriteFile | fsReadFile | fsTruncate | fsIoctlDev // the rights that apply to files
)

// LandlockVersion returns the kernel's Landlock ABI version; 0 without Landlock.
func LandlockVersion() int {
	r, _, errno := syscall.RawSyscall(sysLandlockCreate, 0, 0, 1) // LANDLOCK_CREATE_RULESET_VERSION
	if errno != 0 {
		return 0
	}
	return int(r)
}

// rightsOn returns the Landlock rights for an access.
func rightsOn(access int) uint64 {
	rights := uint64(fsReadFile | fsReadDir)
	if access&Run != 0 {
		rights |= fsExecute
	}
	if access&Write != 0 {
		rights |= fsWriteFile | fsRemoveDir | fsRemoveFile | fsMakeDir | fsMakeReg |
			fsMakeSock | fsMakeFIFO | fsMakeSym | fsRefer | fsTruncate
	}
	if access&Device != 0 {
		rights |= fsWriteFile | fsTruncate | fsIoctlDev
	}
	return rights
}

// ruleset makes the Landlock rules of p, for the opened grants.
func (p *Plan) ruleset(opened []int) (int, error) {
	const doing = "restricting files with Landlock"
	var attributes struct{ fs, net, scoped uint64 }
	size := uintptr(8)
	attributes.fs = fsVersion1
	if p.Landlock >= 2 {
		attributes.fs |= fsRefer
	}
	if p.Landlock >= 3 {
		attributes.fs |= fsTruncate
	}
	if p.Landlock >= 5 {
		attributes.fs |= fsIoctlDev
	}
	if p.Landlock >= 4 {
		size = 16
		if p.Network == NoNetwork {
			attributes.net = 3 // bind and connect of TCP
		}
	}
	if p.Landlock >= 6 {
		size = 24
		attributes.scoped = 3 // abstract Unix sockets and signals
	}
	r, _, errno := syscall.RawSyscall(sysLandlockCreate, uintptr(unsafe.Pointer(&attributes)), size, 0)
	if errno != 0 {
		return -1, fault(doing, errno)
	}
	rules := int(r)
	for i, g := range p.Grants {
		var stat syscall.Stat_t
		if err := syscall.Fstat(opened[i], &stat); err != nil {
			return -1, fault(g.Path, err)
		}
		rights := rightsOn(g.Access) & attributes.fs
		if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			rights &= forFiles
		}
		// The kernel's structure is packed: twelve bytes.
		beneath := [3]uint32{uint32(rights), uint32(rights >> 32), uint32(opened[i])}
		_, _, errno = syscall.RawSyscall6(sysLandlockAdd, r, 1, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
		if errno != 0 {
			return -1, fault(doing+": "+g.Path, errno)
		}
	}
	return rules, nil
}
