//go:build amd64 || arm64

package shim

import (
	"syscall"
	"unsafe"
)

// What a filter answers: run the call, or do not and return an error.
const (
	allow    = 0x7fff0000
	refuse   = 0x00050000 | uint32(syscall.EPERM)
	unknown  = 0x00050000 | uint32(syscall.ENOSYS)
	kill     = 0x80000000
	noSocket = 0x00050000 | uint32(syscall.EACCES)
)

// What the arguments of calls mean.
const (
	specialBits = 0o6000 // set-user-ID and set-group-ID
	notFIFO     = ^uint32(syscall.S_IFIFO | 0o777)
	namespaces  = 0x7e020000 // CLONE_NEW*, but for the time namespace, which clone cannot make
	createFlags = syscall.O_CREAT | 0x400000
	typeMask    = 0xf // of the second argument of socket; above it are flags

	tiocsti, tioclinux = 0x5412, 0x541c

	prioProcess, ioprioProcess = 0, 1 // the arguments after them are processes
)

// The numbers that all machines share. What comes after the last of them is not
// known here, and answered as a kernel does that does not have it.
const (
	nrPidfdSendSignal = 424
	nrFchmodat2       = 452
	lastKnown         = 462 // mseal
)

// deniedEverywhere are denied where [denied] are.
var deniedEverywhere = []uint32{
	428, 429, 430, 431, 432, 433, 442, // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
	438, 440, 443, 447, 448, // pidfd_getfd, process_madvise, quotactl_fd, memfd_secret, process_mrelease
	457, 458, // statmount, listmount
}

// absent are calls whose arguments are in memory, where a filter cannot read them,
// and io_uring, which makes calls past the filter. Programs that do not find them
// use the older forms.
var absent = []uint32{
	425, 426, 427, // io_uring_setup, io_uring_enter, io_uring_register
	435, 437, // clone3, openat2
}

// rule is about one system call. It is denied if all terms of one of the lists in
// deny hold, or, where there are lists in only, if those of none of them do.
type rule struct {
	nr         uint32
	deny, only [][]term
	answer     uint32 // when it is denied; 0 is refuse
}

// term is about the lower half of an argument, which is all that the kernel looks
// at where it wants an int. A term holds if the bits in mask are those of value.
type term struct {
	arg         int
	mask, value uint32 // a zero mask is every bit
	not         bool
}

// special says that an argument is a mode with the set-user-ID or set-group-ID bit.
func special(arg int) []term { return []term{{arg: arg, mask: specialBits, not: true}} }

// opens is what is denied to a call that opens files, with its flags at an argument
// and the mode behind them: to make a file with one of the special bits, and to cut
// off a file that is opened for reading, which Landlock cannot always see.
func opens(flags int) [][]term {
	return [][]term{
		{special(flags + 1)[0], {arg: flags, mask: createFlags, not: true}},
		{{arg: flags, mask: syscall.O_ACCMODE | syscall.O_TRUNC, value: syscall.O_RDONLY | syscall.O_TRUNC}},
	}
}

// rules returns what p filters besides what is denied in any case.
func (p *Plan) rules(self int) []rule {
	list := append(older(), []rule{
		{nr: nrOpenat, deny: opens(2)},
		{nr: nrMknodat, deny: [][]term{{{arg: 2, mask: notFIFO, not: true}}}},
		{nr: nrIoctl, deny: [][]term{{{arg: 1, value: tiocsti}}, {{arg: 1, value: tioclinux}}}},
		{nr: nrPersonality, only: [][]term{{{arg: 0, value: 0}}, {{arg: 0, value: 0xffffffff}}}},
		// Nothing outlives the gateway by not being told of its end.
		{nr: nrPrctl, deny: [][]term{{
			{arg: 0, value: syscall.PR_SET_PDEATHSIG},
			{arg: 1, value: uint32(syscall.SIGKILL), not: true},
		}}},
		// The two ends of a pair of stream sockets cannot be led elsewhere; those of
		// other kinds send to any address.
		{nr: nrSocketpair, answer: noSocket, only: [][]term{{
			{arg: 0, value: syscall.AF_UNIX},
			{arg: 1, mask: typeMask, value: syscall.SOCK_STREAM},
		}}},
	}...)

	clone := rule{nr: nrClone, deny: [][]term{{{arg: 0, mask: namespaces, not: true}}}}
	if p.NoProcesses != 0 {
		clone = rule{nr: nrClone, only: [][]term{{ // threads are still made
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
		sockets = append(sockets, []term{{arg: 0, value: syscall.AF_NETLINK}, {arg: 2, value: 0}}) // addresses and routes
	} else {
		list = append(list, rule{nr: nrConnect, answer: noSocket, only: [][]term{}})
	}
	list = append(list, rule{nr: nrSocket, answer: noSocket, only: sockets})

	if p.Alone == 0 {
		return append(list, p.among(self)...)
	}
	return append(list, modes()...)
}

// modes are the rules of a process that can change nothing but what it may write:
// its files have no special bits.
func modes() []rule {
	list := []rule{
		{nr: nrFchmod, deny: [][]term{special(1)}},
		{nr: nrFchmodat, deny: [][]term{special(2)}},
		{nr: nrFchmodat2, deny: [][]term{special(2)}},
	}
	return append(list, olderModes()...)
}

// among are the rules of a process that has no namespaces, and so sees all files and
// processes of the machine.
func (p *Plan) among(self int) []rule {
	var list []rule
	refused := func(nr uint32) { list = append(list, rule{nr: nr, only: [][]term{}}) }
	// A group is killed as a whole; nothing leaves it.
	refused(nrSetsid)
	refused(nrSetpgid)
	// Landlock does not know modes, owners and attributes, and whoever owns a file can
	// change them wherever it is.
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
	// Other processes of the same user are not slowed down, nor ended by a limit.
	list = append(list,
		rule{nr: nrPrlimit, only: own(0)},
		rule{nr: nrSetpriority, only: own(1, term{arg: 0, value: prioProcess})},
		rule{nr: nrIoprioSet, only: own(1, term{arg: 0, value: ioprioProcess})},
	)
	for _, nr := range scheduling {
		list = append(list, rule{nr: nr, only: own(0)})
	}
	if p.Landlock < 6 {
		// No layer knows whose signal it is. The process itself and its group can be
		// told apart by their numbers, and nothing else.
		for _, nr := range []uint32{nrKill, nrTgkill, nrSigqueue, nrTgsigqueue} {
			list = append(list, rule{nr: nr, only: append(own(0), []term{{arg: 0, value: -me}})})
		}
		list = append(list, rule{nr: nrTkill, only: own(0)})
		refused(nrPidfdSendSignal)
	}
	return list
}

// The instructions that are used of the many that a filter can have.
const (
	load     = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	and      = syscall.BPF_ALU | syscall.BPF_AND | syscall.BPF_K
	equal    = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	atLeast  = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
	answerIt = syscall.BPF_RET | syscall.BPF_K
)

// filter returns the instructions for p; self is the process that it is for.
func (p *Plan) filter(self int) []syscall.SockFilter {
	prog := []syscall.SockFilter{
		{Code: load, K: 4}, // the machine that the number belongs to
		{Code: equal, K: auditArch, Jt: 1},
		{Code: answerIt, K: kill},
		{Code: load, K: 0}, // the number
		{Code: atLeast, K: lastKnown + 1, Jf: 1},
		{Code: answerIt, K: unknown},
	}
	for _, r := range p.rules(self) {
		body := r.body()
		prog = append(prog, syscall.SockFilter{Code: equal, K: r.nr, Jf: uint8(len(body))}) // a test counts them
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

// body returns the instructions after the number was found to be that of r. They
// end with an answer on every way through.
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
			one = append(last.test(uint8(len(one)+1)), one...) // a test counts them
		}
		prog = append(append(prog, one...), syscall.SockFilter{Code: answerIt, K: then})
	}
	return append(prog, syscall.SockFilter{Code: answerIt, K: otherwise})
}

// test returns instructions that go on if t holds, and else skip that many.
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

// loadFilter puts a filter in force, for this thread or for all of the process.
// Privileges must not be able to grow any more.
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
