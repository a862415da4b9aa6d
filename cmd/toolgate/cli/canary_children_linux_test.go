//go:build e2e

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/fakeserver"
)

// children looks at the command line of a gateway, and at the command lines and
// environments of all processes below it: the servers that are given a secret have what
// belongs to them.
func (w *watch) children(gateway int) {
	w.t.Helper()
	at := func(pid int, name string) []byte {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
		if err != nil {
			return nil // it has ended
		}
		return text
	}
	w.look("the command line of the gateway", at(gateway, "cmdline"))
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		w.t.Fatal(err)
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if _, stat, ok := bytes.Cut(at(pid, "stat"), []byte(") ")); ok {
			parents[pid], _ = strconv.Atoi(strings.Fields(string(stat))[1])
		}
	}
	seen := 0
	for pid := range parents {
		above := parents[pid]
		for above != gateway && above != 0 {
			above = parents[above]
		}
		if above != gateway {
			continue
		}
		line, environ := at(pid, "cmdline"), at(pid, "environ")
		if len(line) == 0 || bytes.Equal(line, at(gateway, "cmdline")) || !bytes.Equal(line, at(pid, "cmdline")) {
			continue // it begins or ends: line and environment may be those of two programs
		}
		who := strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
		var belongs []string
		switch {
		case strings.HasSuffix(who, " "+fakeserver.Command+" prints"):
			belongs = []string{"env"}
			if !bytes.Contains(environ, []byte(w.secrets["env"])) {
				w.t.Error("the first server lacks what it is given")
			}
		case strings.Contains(who, "no use: $API_TOKEN"): // the second one, which starts again and again
			belongs = []string{"env"}
		}
		seen++
		w.look("the command line "+who, line)
		w.look("the environment of "+who, environ, belongs...)
	}
	if seen < 2 {
		w.t.Errorf("%d children were seen", seen)
	}
}
