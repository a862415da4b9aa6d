//go:build unix

package guardian

import "syscall"

const (
	// maxChildren bounds the known children; more are not guarded.
	maxChildren = 1 << 16
	// maxPID exceeds all process ids.
	maxPID = 1 << 30
)

// table is the guardian's knowledge.
type table struct {
	gateway int // its process id
	group   int // its process group, which is never killed
	self    int

	children map[uint64]*child
	strays   map[int]uint64 // descendants outside of the groups, with their start times
}

// child is a process that leads a group, together with the group.
type child struct {
	pid   int
	start uint64 // its StartTime; 0 when unknown
	pidfd int    // -1 for none
}

func newTable(gateway, group int) *table {
	return &table{
		gateway: gateway, group: group, self: syscall.Getpid(),
		children: make(map[uint64]*child), strays: make(map[int]uint64),
	}
}

// line processes a line of the gateway. Unreadable lines are ignored.
func (t *table) line(line []byte) {
	word, rest := cut(line)
	var numbers [3]uint64
	n := 0
	for len(rest) > 0 {
		var text []byte
		text, rest = cut(rest)
		if n == len(numbers) {
			return
		}
		var ok bool
		if numbers[n], ok = number(text); !ok {
			return
		}
		n++
	}
	switch {
	case string(word) == Started && n == 3:
		t.started(numbers[0], numbers[1], numbers[2])
	case string(word) == Ended && n == 1:
		t.forget(numbers[0])
	case string(word) == Look && n == 0:
		t.look()
	}
}

// started records the process of a child.
func (t *table) started(id, pid, start uint64) {
	if pid > maxPID || !t.mayEnd(int(pid)) {
		return
	}
	c := &child{pid: int(pid), start: start, pidfd: -1}
	c.open()
	t.add(id, c)
}

// mayEnd reports whether a process id may be that of a group to kill: not a special
// number, and not the gateway's or the guardian's own.
func (t *table) mayEnd(pid int) bool {
	return pid > 1 && pid != t.group && pid != t.gateway && pid != t.self
}

func (t *table) add(id uint64, c *child) {
	t.forget(id)
	if len(t.children) < maxChildren {
		t.children[id] = c
		return
	}
	c.close()
}

func (t *table) forget(id uint64) {
	if c := t.children[id]; c != nil {
		c.close()
		delete(t.children, id)
	}
}

// reused reports whether the id of a child belongs to another process by now. An id
// stays taken while its group has processes, so an id without a process can only be
// that group's.
func (c *child) reused() bool {
	if c.start == 0 {
		return false
	}
	start := StartTime(c.pid)
	return start != 0 && start != c.start
}

// cut splits a line at its first space.
func cut(line []byte) (word, rest []byte) {
	for i, c := range line {
		if c == ' ' {
			return line[:i], line[i+1:]
		}
	}
	return line, nil
}
