package doctor

import (
	"bufio"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Holder returns the process that listens on an address of this machine, as far as
// this user may see it: its id and its program. The id is 0 if that is not known.
func Holder(address string) (pid int, program string) {
	want, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, ""
	}
	inode := listening(want)
	if inode == "" {
		return 0, ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, ""
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != "socket:["+inode+"]" {
			continue
		}
		name := strings.Split(link, "/")[2]
		if pid, err = strconv.Atoi(name); err != nil {
			return 0, ""
		}
		text, _ := os.ReadFile("/proc/" + name + "/comm")
		return pid, strings.TrimSpace(string(text))
	}
	return 0, ""
}

// listening returns the inode of the socket that listens on an address, or on the same
// port of all addresses; empty if there is none (proc_pid_net(5)).
func listening(want netip.AddrPort) string {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" { // TCP_LISTEN
				continue
			}
			if got, ok := kernelAddress(fields[1]); ok && got.Port() == want.Port() &&
				(got.Addr() == want.Addr().Unmap() || got.Addr().IsUnspecified() || want.Addr().IsUnspecified()) {
				return fields[9]
			}
		}
	}
	return ""
}

// kernelAddress reads an address as the tables of /proc write it: each 32 bits of it in
// the byte order of a little-endian machine, which all supported ones are.
func kernelAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}
