package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// seatbeltBase is what programs of macOS need to start. Seatbelt knows files by their real
// paths, so that /etc and /tmp stand here as they are there.
var seatbeltBase = []string{
	"(version 1)",
	"(deny default)",
	`(import "system.sb")`, // libraries, locales, time zones and the services that every program asks
	"(allow process-fork)",
	"(allow signal (target same-sandbox))",
	"(allow sysctl-read)",
	"(allow file-read-metadata)",
	`(allow file-read* (subpath "/usr/lib") (subpath "/usr/share") (subpath "/System/Library") (subpath "/System/Volumes/Preboot") (subpath "/Library/Apple") (subpath "/private/var/db/timezone") (subpath "/private/var/db/dyld") (literal "/private/etc/passwd") (literal "/private/etc/group") (literal "/private/etc/localtime"))`,
	`(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom"))`,
}

// seatbeltOnline is what a program with a network needs in addition: sockets of IP alone,
// names, and the certificate authorities.
var seatbeltOnline = []string{
	"(allow system-socket)",
	"(allow network-outbound (remote ip))",
	"(allow network-bind network-inbound (local ip))",
	`(allow network-outbound (literal "/private/var/run/mDNSResponder"))`,
	`(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.SystemConfiguration.DNSConfiguration") (global-name "com.apple.trustd") (global-name "com.apple.trustd.agent") (global-name "com.apple.networkd"))`,
	`(allow file-read* (subpath "/private/etc/ssl") (literal "/private/etc/hosts") (literal "/private/etc/resolv.conf") (literal "/private/etc/services") (literal "/private/etc/protocols"))`,
}

// seatbelt returns the profile of macOS for a policy. The paths of the policy, of the
// program and of the private folder, if there is one, are real ones.
func seatbelt(p Policy, program, temp string) string {
	out := slices.Clone(seatbeltBase)
	write := slices.Clone(p.Write)
	if temp != "" {
		write = append(write, temp)
	}
	run := append(slices.Clone(p.Run), program)
	if temp != "" && p.TempRun {
		run = append(run, temp)
	}
	allow := func(what string, paths []string) {
		if len(paths) > 0 {
			out = append(out, fmt.Sprintf("(allow %s%s)", what, subpaths(paths)))
		}
	}
	// What may be read may be loaded as code, as on Linux.
	allow("file-read* file-map-executable", slices.Concat(p.Read, write, run))
	allow("file-write*", write)
	allow("process-exec", run)
	if p.Network == FullNetwork {
		out = append(out, seatbeltOnline...)
	}
	if p.Listen {
		for _, path := range write {
			out = append(out, "(allow network-bind network-inbound (local unix-socket (subpath "+seatbeltQuote(path)+")))")
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// subpaths returns filters for files, and for folders with everything in them.
func subpaths(paths []string) string {
	var out strings.Builder
	for _, path := range sortedPaths(paths) {
		out.WriteString(" (subpath " + seatbeltQuote(path) + ")")
	}
	return out.String()
}

func sortedPaths(paths []string) []string {
	out := slices.Clone(paths)
	slices.Sort(out)
	return slices.Compact(out)
}

// seatbeltQuote returns a text as profiles have it. A backslash and a quotation mark are
// the only characters that mean something within one.
func seatbeltQuote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// realPolicy returns a policy with the real paths of what it grants, which must exist and be
// what its Check allows.
func realPolicy(p Policy) (Policy, error) {
	for _, list := range []*[]string{&p.Read, &p.Write, &p.Run} {
		real := make([]string, len(*list))
		for i, path := range *list {
			at, err := filepath.EvalSymlinks(path)
			if err != nil {
				return p, fmt.Errorf("granting %s: what a policy grants must be there: %w", path, err)
			}
			if at == "/" && list == &p.Write {
				return p, fmt.Errorf("granting %s: the root cannot be granted for writing", path)
			}
			real[i] = at
		}
		*list = real
	}
	if p.Check != nil {
		if err := p.Check(p.Read, p.Write, p.Run); err != nil {
			return p, err
		}
	}
	return p, nil
}
