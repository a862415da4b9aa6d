package guardian

import "syscall"

// process is a process of the machine, from /proc.
type process struct {
	pid, parent, group, session int

	state byte
	start uint64 // in clock ticks since the start of the machine
}

// ended reports whether a process has ended but was not waited for.
func (p *process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// processes reads all processes from /proc.
func processes() []process {
	dir, err := syscall.Open("/proc", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(dir) }()
	var out []process
	var buffer [16 << 10]byte
	var names []string
	for {
		n, err := syscall.ReadDirent(dir, buffer[:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return out
		}
		_, _, names = syscall.ParseDirent(buffer[:n], -1, names[:0])
		for _, name := range names {
			pid, ok := number([]byte(name))
			if !ok || pid > maxPID {
				continue
			}
			if p, ok := processOf(int(pid)); ok {
				out = append(out, p)
			}
		}
	}
}

// StartTime returns a value that distinguishes a process from a later one with the same
// id; 0 where there is none, or it is unknown.
func StartTime(pid int) uint64 {
	p, ok := processOf(pid)
	if !ok {
		return 0
	}
	return p.start
}

// processOf reads one process.
func processOf(pid int) (p process, ok bool) {
	var buffer [1024]byte
	fd, err := syscall.Open("/proc/"+decimal(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return p, false
	}
	n, err := syscall.Read(fd, buffer[:])
	_ = syscall.Close(fd)
	if err != nil || n <= 0 {
		return p, false
	}
	p, ok = parseStat(buffer[:n])
	p.pid = pid
	return p, ok
}

// parseStat parses a line of /proc/PID/stat (proc_pid_stat(5)) without the number at
// its beginning. The program's name is in brackets, and may contain brackets.
func parseStat(text []byte) (p process, ok bool) {
	at := len(text) - 1
	for ; at >= 0 && text[at] != ')'; at-- {
	}
	if at < 0 || at+2 >= len(text) {
		return p, false
	}
	rest := text[at+2:]
	for field := 3; len(rest) > 0; field++ {
		var word []byte
		word, rest = cut(rest)
		if field == 3 {
			if len(word) != 1 {
				return p, false
			}
			p.state = word[0]
			continue
		}
		if field > 6 && field != 22 {
			continue
		}
		n, fine := number(word)
		if !fine || field != 22 && n > maxPID {
			return p, false
		}
		switch field {
		case 4:
			p.parent = int(n) // checked
		case 5:
			p.group = int(n) // checked
		case 6:
			p.session = int(n) // checked
		case 22:
			p.start = n
			return p, true
		}
	}
	return p, false
}

// tree is a list of processes with their children.
type tree struct {
	all      []process
	children map[int][]int // indexes in the list, by parent
}

func newTree(all []process) *tree {
	t := &tree{all: all, children: make(map[int][]int, len(all))}
	for i := range all {
		t.children[all[i].parent] = append(t.children[all[i].parent], i)
	}
	return t
}

// below returns the processes that match root, and all their descendants.
func (t *tree) below(root func(*process) bool) []*process {
	var out []*process
	seen := make(map[int]bool)
	for i := range t.all {
		if root(&t.all[i]) && !seen[i] {
			seen[i] = true
			out = append(out, &t.all[i])
		}
	}
	for at := 0; at < len(out); at++ { // out grows meanwhile
		for _, i := range t.children[out[at].pid] {
			if !seen[i] {
				seen[i] = true
				out = append(out, &t.all[i])
			}
		}
	}
	return out
}
