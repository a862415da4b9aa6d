package shim

// System call numbers that package syscall lacks, or that only this machine has.
const (
	auditArch = 0xc00000b7 // AUDIT_ARCH_AARCH64

	sysSeccomp  = 277
	sysExecveat = 281
)

// denied are system calls that no confined program needs, with this machine's numbers.
var denied = []uint32{
	117,           // ptrace
	270, 271, 272, // process_vm_readv, process_vm_writev, kcmp
	40, 39, 41, 51, // mount, umount2, pivot_root, chroot
	60, 224, 225, 142, // quotactl, swapon, swapoff, reboot
	161, 162, // sethostname, setdomainname
	105, 273, 106, // init_module, finit_module, delete_module
	104, 294, // kexec_load, kexec_file_load
	280, 241, 282, // bpf, perf_event_open, userfaultfd
	217, 218, 219, // add_key, request_key, keyctl
	97, 268, // unshare, setns
	264, 265, // name_to_handle_at, open_by_handle_at
	89, 170, 112, 266, 171, // acct, settimeofday, clock_settime, clock_adjtime, adjtimex
	18, 42, 58, 116, // lookup_dcookie, nfsservctl, vhangup, syslog
	262, 239, 238, // fanotify_init, move_pages, migrate_pages
	279,                // memfd_create: memory that no limit of a process counts
	194, 186, 190, 180, // shmget, msgget, semget, mq_open: they outlive their process
}

// Numbers of system calls that are judged by their arguments.
const (
	nrSocket, nrSocketpair, nrConnect = 198, 199, 203
	nrListen, nrAccept, nrAccept4     = 201, 202, 242
	nrClone, nrIoctl, nrPrctl         = 220, 29, 167
	nrPersonality                     = 92
	nrFchmod, nrFchmodat, nrOpenat    = 52, 53, 56
	nrMknodat                         = 33
	nrSetsid, nrSetpgid               = 157, 154
	nrKill, nrTkill, nrTgkill         = 129, 130, 131
	nrSigqueue, nrTgsigqueue          = 138, 240
	nrPrlimit, nrSetpriority          = 261, 140
	nrIoprioSet, nrTruncate           = 30, 45
)

// older returns nothing: this machine has no older variants of these calls.
func older() []rule { return nil }

// olderModes returns nothing: this machine has no older calls that change modes.
func olderModes() []rule { return nil }

// starts are the calls, besides clone, that start processes and programs.
var starts = []uint32{221, 281} // execve, execveat

// scheduling are calls that change the scheduling of the thread in their first
// argument.
var scheduling = []uint32{118, 119, 122, 274} // sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr

// attributes are calls that change a file's metadata.
var attributes = []uint32{
	52, 53, nrFchmodat2, // fchmod, fchmodat
	55, 54, // fchown, fchownat
	5, 6, 7, 14, 15, 16, // setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
}
