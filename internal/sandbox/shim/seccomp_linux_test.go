//go:build amd64 || arm64

package shim

import (
	"syscall"
	"testing"
)

// evaluate runs a filter as the kernel does, for the instructions that there are.
func evaluate(t *testing.T, prog []syscall.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var data [16]uint32 // seccomp_data in words; the lower half of an argument is first
	data[0], data[1] = nr, arch
	for i, a := range args {
		data[4+2*i], data[5+2*i] = uint32(a), uint32(a>>32)
	}
	accumulator := uint32(0)
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		skip := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case load:
			accumulator = data[in.K/4]
		case and:
			accumulator &= in.K
		case equal:
			skip(accumulator == in.K)
		case atLeast:
			skip(accumulator >= in.K)
		case answerIt:
			return in.K
		default:
			t.Fatalf("instruction %d is %#x", pc, in.Code)
		}
	}
	t.Fatal("the filter runs off its end")
	return 0
}

const self = 4242

func TestFilter(t *testing.T) {
	alone := Plan{Alone: 1, Landlock: 7}
	among := Plan{Landlock: 7}
	old := Plan{Landlock: 1}
	still := Plan{Landlock: 7, NoProcesses: 1}
	listens := Plan{Alone: 1, Listen: 1}
	online := Plan{Alone: 1, Network: FullNetwork}
	const upper = 0xdead << 32 // what a kernel that wants an int does not look at
	for _, tt := range []struct {
		name string
		p    Plan
		nr   uint32
		args []uint64
		want uint32
	}{
		{"read", alone, syscall.SYS_READ, nil, allow},
		{"exit", alone, syscall.SYS_EXIT_GROUP, nil, allow},
		{"ptrace", alone, syscall.SYS_PTRACE, nil, refuse},
		{"mount", alone, syscall.SYS_MOUNT, nil, refuse},
		{"the last that this machine denies", alone, denied[len(denied)-1], nil, refuse},
		{"open_tree", alone, 428, nil, refuse},
		{"io_uring_setup", alone, 425, nil, unknown},
		{"clone3", alone, 435, nil, unknown},
		{"the last that is known", alone, lastKnown, nil, allow},
		{"the first that is not", alone, lastKnown + 1, nil, unknown},
		{"x32", alone, 0x40000000, nil, unknown},
		{"x32 ptrace", alone, 0x40000000 + 521, nil, unknown},
		{"all bits", alone, 0xffffffff, nil, unknown},

		{"clone of a process", alone, nrClone, []uint64{17}, allow},
		{"clone of a user namespace", alone, nrClone, []uint64{0x10000000 | 17}, refuse},
		{"clone of a cgroup namespace", alone, nrClone, []uint64{0x02000000}, refuse},
		{"clone of a process where there are none", still, nrClone, []uint64{17}, refuse},
		{"clone of a thread where there are no processes", still, nrClone, []uint64{0x3d0f00}, allow},
		{"clone of a thread with a namespace", still, nrClone, []uint64{0x3d0f00 | 0x40000000}, refuse},
		{"execve where there are no processes", still, syscall.SYS_EXECVE, nil, refuse},
		{"execve", alone, syscall.SYS_EXECVE, nil, allow},

		{"a TCP socket", alone, nrSocket, []uint64{2, 1, 0}, noSocket},
		{"a Unix socket", alone, nrSocket, []uint64{1, 1, 0}, noSocket},
		{"connect", alone, nrConnect, nil, noSocket},
		{"a Unix socket to listen on", listens, nrSocket, []uint64{1, 1 | 0x80800, 0}, allow},
		{"a Unix socket for datagrams", listens, nrSocket, []uint64{1, 2, 0}, noSocket},
		{"its connect", listens, nrConnect, nil, noSocket},
		{"its listen", listens, nrListen, nil, allow},
		{"its accept", listens, nrAccept4, nil, allow},
		{"listen", alone, nrListen, nil, noSocket},
		{"accept", alone, nrAccept, nil, noSocket},
		{"accept4", among, nrAccept4, nil, noSocket},
		{"listen online", online, nrListen, nil, allow},
		{"a TCP socket online", online, nrSocket, []uint64{2, 1 | 0x80000, 6}, allow},
		{"a UDP socket online", online, nrSocket, []uint64{10, 2, 0}, allow},
		{"a raw socket online", online, nrSocket, []uint64{2, 3, 1}, noSocket},
		{"a raw socket with flags", online, nrSocket, []uint64{10, 3 | 0x80000, 58}, noSocket},
		{"a packet socket online", online, nrSocket, []uint64{17, 3, 0}, noSocket},
		{"routes online", online, nrSocket, []uint64{16, 3, 0}, allow},
		{"uevents online", online, nrSocket, []uint64{16, 3, 15}, noSocket},
		{"a Unix socket online", online, nrSocket, []uint64{1, 1, 0}, noSocket},
		{"a Unix socket with upper bits", online, nrSocket, []uint64{upper | 1, 1, 0}, noSocket},
		{"connect online", online, nrConnect, nil, allow},
		{"a pair of streams", alone, nrSocketpair, []uint64{1, 1 | 0x80000, 0}, allow},
		{"a pair of datagrams", alone, nrSocketpair, []uint64{1, 2, 0}, noSocket},
		{"a raw pair", alone, nrSocketpair, []uint64{1, 3, 0}, noSocket},
		{"a pair of records", alone, nrSocketpair, []uint64{1, 5 | 0x80000, 0}, allow},

		{"a mode", alone, nrFchmod, []uint64{3, 0o755}, allow},
		{"a mode among others", among, nrFchmod, []uint64{3, 0o755}, refuse},
		{"the set-user-ID bit", alone, nrFchmod, []uint64{3, 0o4755}, refuse},
		{"the set-group-ID bit", alone, nrFchmodat, []uint64{3, 0, 0o2755}, refuse},
		{"the same by the newest call", alone, nrFchmodat2, []uint64{3, 0, 0o2755, 0}, refuse},
		{"a file that is made", alone, nrOpenat, []uint64{0, 0, syscall.O_CREAT | 1, 0o644}, allow},
		{"a file that is made with it", alone, nrOpenat, []uint64{0, 0, syscall.O_CREAT | 1, 0o4755}, refuse},
		{"a file without a name with it", alone, nrOpenat, []uint64{0, 0, 0x410000 | 1, 0o4755}, refuse},
		{"a file that is opened, and a mode that means nothing", alone, nrOpenat, []uint64{0, 0, 0, 0o4755}, allow},
		{"a file that is cut off", alone, nrOpenat, []uint64{0, 0, syscall.O_TRUNC | 1, 0}, allow},
		{"a file that is cut off for reading", alone, nrOpenat, []uint64{0, 0, syscall.O_TRUNC, 0}, refuse},
		{"a FIFO", alone, nrMknodat, []uint64{0, 0, 0o010600}, allow},
		{"a node", alone, nrMknodat, []uint64{0, 0, 0o100600}, refuse},
		{"a device", alone, nrMknodat, []uint64{0, 0, 0o020600}, refuse},
		{"a FIFO with it", alone, nrMknodat, []uint64{0, 0, 0o014600}, refuse},
		{"truncate", among, nrTruncate, nil, allow},
		{"truncate that Landlock does not see", old, nrTruncate, nil, refuse},

		{"TIOCGWINSZ", alone, nrIoctl, []uint64{0, 0x5413}, allow},
		{"TIOCSTI", alone, nrIoctl, []uint64{0, tiocsti}, refuse},
		{"TIOCSTI with upper bits", alone, nrIoctl, []uint64{0, upper | tiocsti}, refuse},
		{"TIOCLINUX", alone, nrIoctl, []uint64{0, tioclinux}, refuse},
		{"the personality", alone, nrPersonality, []uint64{0xffffffff}, allow},
		{"a personality without random addresses", alone, nrPersonality, []uint64{0x40000}, refuse},
		{"a name", alone, nrPrctl, []uint64{15}, allow},
		{"a death that is not told", alone, nrPrctl, []uint64{1, 0}, refuse},
		{"a death that is told", alone, nrPrctl, []uint64{1, 9}, allow},

		{"a session", alone, nrSetsid, nil, allow},
		{"a session among others", among, nrSetsid, nil, refuse},
		{"a group among others", among, nrSetpgid, nil, refuse},
		{"kill that Landlock sees", among, nrKill, []uint64{1, 9}, allow},
		{"kill that it does not", old, nrKill, []uint64{1, 9}, refuse},
		{"kill of itself", old, nrKill, []uint64{self, 9}, allow},
		{"kill of its group", old, nrKill, []uint64{0, 9}, allow},
		{"kill of its group by number", old, nrKill, []uint64{1<<64 - self, 9}, allow},
		{"kill of everything", old, nrKill, []uint64{1<<64 - 1, 9}, refuse},
		{"tgkill of itself", old, nrTgkill, []uint64{self, self + 1, 23}, allow},
		{"tgkill", old, nrTgkill, []uint64{1, 1, 9}, refuse},
		{"pidfd_send_signal", old, nrPidfdSendSignal, nil, refuse},
		{"its own limits", among, nrPrlimit, []uint64{0, 7}, allow},
		{"the limits of another", among, nrPrlimit, []uint64{1, 7}, refuse},
		{"the priority of itself", among, nrSetpriority, []uint64{0, 0}, allow},
		{"the priority of another", among, nrSetpriority, []uint64{0, 1}, refuse},
		{"the priority of a user", among, nrSetpriority, []uint64{2, 0}, refuse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := evaluate(t, tt.p.filter(self), auditArch, tt.nr, tt.args...); got != tt.want {
				t.Errorf("got %#x, want %#x", got, tt.want)
			}
			if got := evaluate(t, tt.p.filter(self), 0x40000003, tt.nr, tt.args...); got != kill {
				t.Errorf("of another machine: got %#x", got)
			}
		})
	}
}

// No way through a rule is so long that a jump over it does not fit its byte, and
// every call that is named has one rule.
func TestRulesFit(t *testing.T) {
	for _, p := range []Plan{{}, {Alone: 1}, {Landlock: 7, NoProcesses: 1}, {Network: FullNetwork, Listen: 1}} {
		seen := map[uint32]bool{}
		for _, r := range p.rules(self) {
			if seen[r.nr] {
				t.Errorf("call %d has two rules, of which one does not count", r.nr)
			}
			seen[r.nr] = true
			if n := len(r.body()); n > 255 {
				t.Errorf("call %d: %d instructions", r.nr, n)
			}
		}
		for _, list := range [][]uint32{denied, deniedEverywhere, absent} {
			for _, nr := range list {
				if seen[nr] {
					t.Errorf("call %d is denied and has a rule", nr)
				}
				if nr > lastKnown {
					t.Errorf("call %d is unknown anyhow", nr)
				}
				seen[nr] = true
			}
		}
	}
}
