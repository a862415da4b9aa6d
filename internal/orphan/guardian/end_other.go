//go:build unix && !linux

package guardian

import "syscall"

// maxDescriptor exceeds the descriptors that a process inherits.
const maxDescriptor = 1 << 10

// settle closes everything inherited from the gateway. The guardian has a session of
// its own, so signals of a terminal to the gateway's group do not reach it.
func settle() {
	for fd := 3; fd < maxDescriptor; fd++ {
		_ = syscall.Close(fd) // most are not open
	}
}

// look does nothing: only the groups are known here.
func (t *table) look() {}

// end kills the groups of the children.
func (t *table) end() {
	for _, c := range t.children {
		if !c.reused() {
			_ = syscall.Kill(-c.pid, syscall.SIGKILL) // fails when the group is empty, or belongs to another user
		}
	}
}

func (c *child) open()  {}
func (c *child) close() {}
