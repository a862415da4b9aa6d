//go:build amd64 || arm64

package shim

import (
	"syscall"
	"unsafe"
)

// The results of a filter: allow the call, or return an error without running it.
const (
	allow    = 0x7fff0000
	refuse   = 0x00050000 | uint32(syscall.EPERM)
	unknown  = 0x00050000 | uint32(syscall.ENOSYS)
	kill     = 0x80000000
	noSocket = 0x00050000 | uint32(syscall.EACCES)
)

// Bits and values in the arguments of calls.
const (
	specialBits = 0o6000 // set-user-ID and set-group-ID
	notFIFO     = ^uint32(syscall.S_IFIFO | 0o777)
	namespaces  = 0x7e020000 // CLONE_NEW*, except the time namespace, which clone cannot make
	createFlags = syscall.O_CREAT | 0x400000
	typeMask    = 0xf // of the second argument of socket; above it are flags

	tiocsti, tioclinux = 0x5412, 0x541c

	prioProcess, ioprioProcess = 0, 1 // the arguments after them are processes
)

// The numbers that all machines share. Calls after the last one are unknown here. The
// filter answers them like a kernel that lacks them.
const (
	nrPidfdSendSignal = 424
	nrFchmodat2       = 452
	lastKnown         = 462 // mseal
)

// deniedEverywhere are denied on every machine, in addition to [denied].
var deniedEverywhere = []uint32{
	428, 429, 430, 431, 432, 433, 442, // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
	438, 440, 443, 447, 448, // pidfd_getfd, process_madvise, quotactl_fd, memfd_secret, process_mrelease
	457, 458, // statmount, listmount
}

// absent are calls with arguments in memory, which a filter cannot read, and io_uring,
// which makes calls that bypass the filter. Programs that do not find them use the
// older calls.
var absent = []uint32{
	425, 426, 427, // io_uring_setup, io_uring_enter, io_uring_register
	435, 437, // clone3, openat2
}

// rule is about one system call. The call is denied if all terms of a list in deny
// hold, or, where only has lists, if none of them holds.
type rule struct {
	nr         uint32
	deny, only [][]term
	answer     uint32 // when it is denied; 0 is refuse
}

// term is about the lower half of an argument, which is all that the kernel reads
// where it expects an int. A term holds if the bits in mask equal those of value.
type term struct {
	arg         int
	mask, value uint32 // a zero mask is every bit
	not         bool
}

// special holds if an argument is a mode with the set-user-ID or set-group-ID bit.
func special(arg int) []term { return []term{{arg: arg, mask: specialBits, not: true}} }

// opens returns the denied uses of a call that opens files. flags is the argument with
// its flags, and the mode follows. Denied are creating a file with a special bit, and
// truncating a file that is opened for reading, which Landlock cannot always see.
func opens(flags int) [][]term {
	return [][]term{
		{special(flags + 1)[0], {arg: flags, mask: createFlags, not: true}},
		{{arg: flags, mask: syscall.O_ACCMODE | syscall.O_TRUNC, value: syscall.O_RDONLY | syscall.O_TRUNC}},
	}
}

// rules returns the rules of p beyond the calls that are always denied.
func (p *Plan) rules(self int) []rule {
	list := append(older(), []rule{
		{nr: nrOpenat, deny: opens(2)},
		{nr: nrMknodat, deny: [][]term{{{arg: 2, mask: notFIFO, not: true}}}},
		{nr: nrIoctl, deny: [][]term{{{arg: 1, value: tiocsti}}, {{arg: 1, value: tioclinux}}}},
		{nr: nrPersonality, only: [][]term{{{arg: 0, value: 0}}, {{arg: 0, value: 0xffffffff}}}},
		// A process must not cancel the signal that ends it with the gateway.
		{nr: nrPrctl, deny: [][]term{{
			{arg: 0, value: syscall.PR_SET_PDEATHSIG},
			{arg: 1, value: uint32(syscall.SIGKILL), not: true},
		}}},
		// Sockets of streams and of records in a pair stay connected to each other, and ignore
		// an address that is given with a message. Other kinds can send to any address.
		{nr: nrSocketpair, answer: noSocket, only: [][]term{
			{{arg: 0, value: syscall.AF_UNIX}, {arg: 1, mask: typeMask, value: syscall.SOCK_STREAM}},
			{{arg: 0, value: syscall.AF_UNIX}, {arg: 1, mask: typeMask, value: syscall.SOCK_SEQPACKET}},
		}},
	}...)

	clone := rule{nr: nrClone, deny: [][]term{{{arg: 0, mask: namespaces, not: true}}}}
	if p.NoProcesses != 0 {
		clone = rule{nr: nrClone, only: [][]term{{ // threads are still allowed
			{arg: 0, mask: syscall.CLONE_THREAD, value: syscall.CLONE_THREAD},
			{arg: 0, mask: namespaces},
		}}}
		for _, nr := range starts {
			list = append(list, rule{nr: nr, only: [][]term{}})
		}
	}
	list = append(list, clone)

	sockets := [][]term{}
	if p.Listen != 0 {
		sockets = append(sockets, []term{
			{arg: 0, value: syscall.AF_UNIX}, {arg: 1, mask: typeMask, value: syscall.SOCK_STREAM},
		})
	}
	if p.Network == FullNetwork {
		for _, family := range []uint32{syscall.AF_INET, syscall.AF_INET6} {
			for _, kind := range []uint32{syscall.SOCK_STREAM, syscall.SOCK_DGRAM} {
				sockets = append(sockets, []term{{arg: 0, value: family}, {arg: 1, mask: typeMask, value: kind}})
			}
		}
		sockets = append(sockets, []term{{arg: 0, value: syscall.AF_NETLINK}, {arg: 2, value: 0}}) // for addresses and routes
	} else {
		list = append(list, rule{nr: nrConnect, answer: noSocket, only: [][]term{}})
	}
	if p.Network != FullNetwork && p.Listen == 0 {
		// A kernel before 6.2 may take a socket of records for one that is not connected, where a
		// message and the end of the other one meet.
		for _, nr := range []uint32{nrListen, nrAccept, nrAccept4} {
			list = append(list, rule{nr: nr, answer: noSocket, only: [][]term{}})
		}
	}
	list = append(list, rule{nr: nrSocket, answer: noSocket, only: sockets})

	if p.Alone == 0 {
		return append(list, p.among(self)...)
	}
	return append(list, modes()...)
}

// modes returns the rules for a process that can change only its writable files: they
// never get special bits.
func modes() []rule {
	list := []rule{
		{nr: nrFchmod, deny: [][]term{special(1)}},
		{nr: nrFchmodat, deny: [][]term{special(2)}},
		{nr: nrFchmodat2, deny: [][]term{special(2)}},
	}
	return append(list, olderModes()...)
}

// among returns the rules for a process without namespaces, which sees all files and
// processes of the machine.
func (p *Plan) among(self int) []rule {
	var list []rule
	refused := func(nr uint32) { list = append(list, rule{nr: nr, only: [][]term{}}) }
	// A group is killed as a whole, so no process may leave it.
	refused(nrSetsid)
	refused(nrSetpgid)
	// Landlock does not cover modes, owners and attributes, and a file's owner can
	// change them anywhere.
	for _, nr := range attributes {
		refused(nr)
	}
	if p.Landlock < 3 {
		refused(nrTruncate)
	}
	me := uint32(self) // a process identifier
	own := func(arg int, more ...term) [][]term {
		return [][]term{append(more, term{arg: arg, value: me}), append(more, term{arg: arg})}
	}
	// Other processes of the same user must not be slowed down or killed by a limit.
	list = append(list,
		rule{nr: nrPrlimit, only: own(0)},
		rule{nr: nrSetpriority, only: own(1, term{arg: 0, value: prioProcess})},
		rule{nr: nrIoprioSet, only: own(1, term{arg: 0, value: ioprioProcess})},
	)
	for _, nr := range scheduling {
		list = append(list, rule{nr: nr, only: own(0)})
	}
	if p.Landlock < 6 {
		// No layer knows the target of a signal. Only the process itself and its group
		// can be recognised by their numbers.
		for _, nr := range []uint32{nrKill, nrTgkill, nrSigqueue, nrTgsigqueue} {
			list = append(list, rule{nr: nr, only: append(own(0), []term{{arg: 0, value: -me}})})
		}
		list = append(list, rule{nr: nrTkill, only: own(0)})
		refused(nrPidfdSendSignal)
	}
	return list
}

// The instructions that the filter uses.
const (
	load     = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	and      = syscall.BPF_ALU | syscall.BPF_AND | syscall.BPF_K
	equal    = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	atLeast  = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
	answerIt = syscall.BPF_RET | syscall.BPF_K
)

// filter returns the instructions for p; self is the confined process.
func (p *Plan) filter(self int) []syscall.SockFilter {
	prog := []syscall.SockFilter{
		{Code: load, K: 4}, // the architecture of the number
		{Code: equal, K: auditArch, Jt: 1},
		{Code: answerIt, K: kill},
		{Code: load, K: 0}, // the number
		{Code: atLeast, K: lastKnown + 1, Jf: 1},
		{Code: answerIt, K: unknown},
	}
	for _, r := range p.rules(self) {
		body := r.body()
		prog = append(prog, syscall.SockFilter{Code: equal, K: r.nr, Jf: uint8(len(body))}) // a test checks the count
		prog = append(prog, body...)
	}
	for _, list := range [][]uint32{denied, deniedEverywhere} {
		for _, nr := range list {
			prog = append(prog, answerTo(nr, refuse)...)
		}
	}
	for _, nr := range absent {
		prog = append(prog, answerTo(nr, unknown)...)
	}
	return append(prog, syscall.SockFilter{Code: answerIt, K: allow})
}

func answerTo(nr, answer uint32) []syscall.SockFilter {
	return []syscall.SockFilter{{Code: equal, K: nr, Jf: 1}, {Code: answerIt, K: answer}}
}

// body returns the instructions after the number has matched r. Every path through
// them ends with an answer.
func (r rule) body() []syscall.SockFilter {
	no := r.answer
	if no == 0 {
		no = refuse
	}
	var prog []syscall.SockFilter
	lists, then, otherwise := r.deny, no, uint32(allow)
	if r.only != nil {
		lists, then, otherwise = r.only, allow, no
	}
	for _, terms := range lists {
		var one []syscall.SockFilter
		for i := range terms {
			last := terms[len(terms)-1-i]
			one = append(last.test(uint8(len(one)+1)), one...) // a test checks the count
		}
		prog = append(append(prog, one...), syscall.SockFilter{Code: answerIt, K: then})
	}
	return append(prog, syscall.SockFilter{Code: answerIt, K: otherwise})
}

// test returns instructions that continue if t holds, and otherwise skip that many.
func (t term) test(skip uint8) []syscall.SockFilter {
	prog := []syscall.SockFilter{{Code: load, K: uint32(16 + 8*t.arg)}} // one of six
	if t.mask != 0 {
		prog = append(prog, syscall.SockFilter{Code: and, K: t.mask})
	}
	jump := syscall.SockFilter{Code: equal, K: t.value, Jf: skip}
	if t.not {
		jump.Jt, jump.Jf = skip, 0
	}
	return append(prog, jump)
}

// loadFilter activates a filter for this thread, or for the whole process. Privileges
// must already be unable to grow.
func loadFilter(prog []syscall.SockFilter, everyThread bool) error {
	if len(prog) > 4096 {
		return fault("filtering system calls", syscall.E2BIG)
	}
	head := syscall.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]} // checked above
	flags := uintptr(0)
	if everyThread {
		flags = 1 // SECCOMP_FILTER_FLAG_TSYNC
	}
	const setModeFilter = 1
	r, _, errno := syscall.RawSyscall(sysSeccomp, setModeFilter, flags, uintptr(unsafe.Pointer(&head)))
	if errno != 0 {
		return fault("filtering system calls", errno)
	}
	if r != 0 {
		return fault("filtering system calls of every thread", syscall.EBUSY)
	}
	return nil
}
