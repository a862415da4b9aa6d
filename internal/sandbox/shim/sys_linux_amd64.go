package shim

// System call numbers that package syscall lacks, or that only this machine has.
const (
	auditArch = 0xc000003e // AUDIT_ARCH_X86_64

	sysSeccomp  = 317
	sysExecveat = 322
)

// denied are system calls that no confined program needs, with this machine's numbers.
var denied = []uint32{
	101,           // ptrace
	310, 311, 312, // process_vm_readv, process_vm_writev, kcmp
	165, 166, 155, 161, // mount, umount2, pivot_root, chroot
	179, 167, 168, 169, // quotactl, swapon, swapoff, reboot
	170, 171, // sethostname, setdomainname
	175, 313, 176, // init_module, finit_module, delete_module
	246, 320, // kexec_load, kexec_file_load
	321, 298, 323, // bpf, perf_event_open, userfaultfd
	248, 249, 250, // add_key, request_key, keyctl
	272, 308, // unshare, setns
	303, 304, // name_to_handle_at, open_by_handle_at
	163, 164, 227, 305, 159, // acct, settimeofday, clock_settime, clock_adjtime, adjtimex
	172, 173, 154, // iopl, ioperm, modify_ldt
	212, 180, 153, 103, // lookup_dcookie, nfsservctl, vhangup, syslog
	300, 279, 256, // fanotify_init, move_pages, migrate_pages
	319,             // memfd_create: memory that no limit of a process counts
	29, 68, 64, 240, // shmget, msgget, semget, mq_open: they outlive their process
	134, 136, 139, 156, // uselib, ustat, sysfs, _sysctl
}

// Numbers of system calls that are judged by their arguments.
const (
	nrSocket, nrSocketpair, nrConnect = 41, 53, 42
	nrListen, nrAccept, nrAccept4     = 50, 43, 288
	nrClone, nrIoctl, nrPrctl         = 56, 16, 157
	nrPersonality                     = 135
	nrFchmod, nrFchmodat, nrOpenat    = 91, 268, 257
	nrMknodat                         = 259
	nrSetsid, nrSetpgid               = 112, 109
	nrKill, nrTkill, nrTgkill         = 62, 200, 234
	nrSigqueue, nrTgsigqueue          = 129, 297
	nrPrlimit, nrSetpriority          = 302, 141
	nrIoprioSet, nrTruncate           = 251, 76
)

// older returns rules for older variants of these calls, which newer machines lack.
func older() []rule {
	return []rule{
		{nr: 85, deny: [][]term{special(1)}},                            // creat
		{nr: 2, deny: opens(1)},                                         // open
		{nr: 133, deny: [][]term{{{arg: 1, mask: notFIFO, not: true}}}}, // mknod
	}
}

// olderModes returns rules for older calls that change modes.
func olderModes() []rule {
	return []rule{{nr: 90, deny: [][]term{special(1)}}} // chmod
}

// starts are the calls, besides clone, that start processes and programs.
var starts = []uint32{57, 58, 59, 322} // fork, vfork, execve, execveat

// scheduling are calls that change the scheduling of the thread in their first
// argument.
var scheduling = []uint32{142, 144, 203, 314} // sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr

// attributes are calls that change a file's metadata.
var attributes = []uint32{
	90, 91, 268, nrFchmodat2, // chmod, fchmod, fchmodat
	92, 93, 94, 260, // chown, fchown, lchown, fchownat
	188, 189, 190, 197, 198, 199, // setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
}
