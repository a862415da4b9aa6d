package audit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/raced"
)

var kills = flag.Int("audit-kills", raced.Times(60, 20), "how often a process that writes an audit log is killed, in each fsync mode")

const (
	// killedAt and killedWith tell a child of the test process its log and fsync mode.
	killedAt, killedWith = "TOOLGATE_AUDIT_KILLED_AT", "TOOLGATE_AUDIT_KILLED_WITH"
	// killedCallers is how many calls a child makes at a time, killsPerLog how many
	// children write one log in sequence.
	killedCallers, killsPerLog = 8, 20
)

func TestMain(m *testing.M) {
	if path := os.Getenv(killedAt); path != "" {
		if err := untilKilled(path, os.Getenv(killedWith)); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// fsyncModes are the modes by the words of the configuration.
var fsyncModes = map[string]audit.Fsync{"interval": audit.FsyncInterval, "always": audit.FsyncAlways, "never": audit.FsyncNone}

// untilKilled makes calls and reports on its standard output, as soon as it may, what
// others saw of each: delivered, answered or refused. It also reports anchored heads.
func untilKilled(path, fsync string) error {
	say := func(what, of string) { _, _ = os.Stdout.WriteString(what + " " + of + "\n") } // whole, or not at all
	l, err := audit.Open(path, audit.Options{
		Fsync: fsyncModes[fsync], Key: audit.TestKey, RotateSize: 256 << 10,
		Anchor: func(_ context.Context, h audit.Head) error {
			b, err := json.Marshal(h)
			say("anchored", string(b))
			return err
		},
	})
	if err != nil {
		return err
	}
	failed := make(chan error)
	go func() { failed <- l.Run(context.Background()) }()
	for caller := range killedCallers {
		go func() {
			for n := 0; ; n++ {
				e := example()
				e.CallID = fmt.Sprintf("%d-%d-%d", os.Getpid(), caller, n)
				e.Outcome = audit.OutcomeOK
				if n%8 == 7 {
					if err := l.Append(&e); err != nil {
						failed <- err
						return
					}
					say("refused", e.CallID)
					continue
				}
				if err := l.Begin(&e); err != nil {
					failed <- err
					return
				}
				say("delivered", e.CallID)
				if err := l.End(&e); err != nil {
					failed <- err
					return
				}
				say("answered", e.CallID)
			}
		}()
	}
	return <-failed
}

// seen is what was seen of the calls of killed processes.
type seen struct {
	delivered, answered, refused map[string]bool
	anchors                      keep
}

// kill runs a process that writes the log at path, kills it at some moment, and records
// what was seen of its calls.
func (s *seen) kill(t *testing.T, path, fsync string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), killedAt+"="+path, killedWith+"="+fsync)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end := func() { once.Do(func() { _ = child.Process.Kill() }) }
	// Some while they open the log, the others after so many calls.
	after := rand.IntN(200)
	if after < 50 {
		after = 1 << 20
		timer := time.AfterFunc(time.Duration(rand.IntN(40))*time.Millisecond, end)
		defer timer.Stop()
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == after {
			end()
		}
		what, of, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "delivered":
			s.delivered[of] = true
		case "answered":
			s.answered[of] = true
		case "refused":
			s.refused[of] = true
		case "anchored":
			var h audit.Head
			if err := json.Unmarshal([]byte(of), &h); err != nil {
				t.Fatal(err)
			}
			_ = s.anchors.put(t.Context(), h) // it returns nil
		default:
			t.Fatalf("the child says %s", lines.Text())
		}
	}
	end()
	_ = child.Wait() // it was killed
}

// Processes that write a log are killed at any moment. Everything that was seen of
// their calls is recorded: each delivered call has a beginning and one end, each
// refused one has its entry, and nothing looks like a cut.
func TestKilledAtAnyMoment(t *testing.T) {
	for fsync := range fsyncModes {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			var delivered, unknown int
			for left := *kills; left > 0; left -= killsPerLog {
				s := seen{
					delivered: make(map[string]bool), answered: make(map[string]bool), refused: make(map[string]bool),
					anchors: keep{heads: make(map[string]audit.Head)},
				}
				path := filepath.Join(t.TempDir(), "audit.jsonl")
				n := min(left, killsPerLog)
				for range n {
					s.kill(t, path, fsync)
				}
				unknown += s.account(t, path, fsync, n)
				delivered += len(s.delivered)
			}
			t.Logf("%d kills: %d calls delivered, %d unknown", *kills, delivered, unknown)
		})
	}
}

// account compares a log with what was seen, after a last run has closed it, and
// returns the number of calls with an unknown end.
func (s *seen) account(t *testing.T, path, fsync string, kills int) (unknown int) {
	t.Helper()
	l := open(t, path, audit.Options{Anchor: s.anchors.put})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	report := verify(t, path, s.anchors.all())
	if len(report.Findings) > 0 || report.Open != 0 {
		t.Errorf("%d calls are open, %v", report.Open, report.Findings)
	}
	files, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	begins, ends, outcome := make(map[string]int), make(map[string]int), make(map[string]audit.Outcome)
	err = audit.Read(files, func(r *audit.Record) error {
		if r.Event == audit.EventBegin {
			begins[r.CallID]++
			return nil
		}
		ends[r.CallID]++
		outcome[r.CallID] = r.Outcome
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	faults := 0
	wrong := func(format string, args ...any) {
		if faults++; faults <= 5 {
			t.Errorf(format, args...)
		}
	}
	for id := range s.delivered {
		if begins[id] != 1 {
			wrong("the call %s was delivered, and began %d times", id, begins[id])
		}
	}
	for id := range s.refused {
		if ends[id] != 1 || begins[id] != 0 {
			wrong("the call %s was refused, and has %d entries", id, ends[id])
		}
	}
	for id := range s.answered {
		if outcome[id] != audit.OutcomeOK && (outcome[id] != audit.OutcomeUnknown || fsync == "always") {
			wrong("the call %s was answered, and ended %q", id, outcome[id])
		}
	}
	for id, n := range begins {
		if n != 1 || ends[id] != 1 {
			wrong("the call %s began %d times and ended %d times", id, n, ends[id])
		}
		if outcome[id] == audit.OutcomeUnknown {
			unknown++
		}
	}
	for id, n := range ends {
		if n != 1 {
			wrong("the call %s ended %d times", id, n)
		}
	}
	if faults > 5 {
		t.Errorf("and %d more", faults-5)
	}
	if more := len(ends) - len(s.delivered) - len(s.refused); more < 0 || more > kills*killedCallers {
		t.Errorf("%d calls are on record of which nothing was seen; each of %d callers of %d processes can have one", more, killedCallers, kills)
	}
	return unknown
}
