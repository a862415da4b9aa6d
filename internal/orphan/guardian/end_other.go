//go:build unix && !linux

package guardian

import "syscall"

// maxDescriptor is more than the number of descriptors that somebody is started with.
const maxDescriptor = 1 << 10

// settle lets go of everything that the gateway had. The guardian has a session of its
// own, so what a terminal sends to the gateway's group does not reach it.
func settle() {
	for fd := 3; fd < maxDescriptor; fd++ {
		_ = syscall.Close(fd) // most are not open
	}
}

// look does nothing: nothing but the groups is known here.
func (t *table) look() {}

// end kills the groups of the children.
func (t *table) end() {
	for _, c := range t.children {
		if !c.reused() {
			_ = syscall.Kill(-c.pid, syscall.SIGKILL) // nobody is left, or only such as are another user's
		}
	}
}

func (c *child) open()  {}
func (c *child) close() {}
