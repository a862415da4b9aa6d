package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
)

// A gateway is killed during a rotation, between any two of its steps. The next run
// continues the chain, closes open calls, and nothing looks cut.
func TestKilledWhileAFileIsPutAside(t *testing.T) {
	for name, next := range map[string]*string{
		"renamed, and the next file is not there": nil,
		"the next file is empty":                  new(string),
		"its first line is half written":          func() *string { s := `{"seq":9,"event":"open","ti`; return &s }(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			l := open(t, path, audit.Options{Fsync: audit.FsyncAlways})
			for i := range 5 {
				add(t, l, fmt.Sprint(i))
			}
			e := entry("open")
			if err := l.Begin(e); err != nil {
				t.Fatal(err)
			}
			whole := read(t, path)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+".20261122T100000Z-7", whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if next != nil {
				if err := os.WriteFile(path, []byte(*next), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l = open(t, path, audit.Options{Fsync: audit.FsyncAlways})
			add(t, l, "after")
			if got := l.Stats(); got.Unknown != 1 {
				t.Errorf("stats %+v", got)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			got := verify(t, path, nil)
			if len(got.Findings) > 0 || got.Calls != 7 || got.Open != 0 || got.Chains != 1 {
				t.Errorf("%+v", got)
			}
			if torn := next != nil && strings.HasPrefix(*next, "{"); torn != (got.Torn > 0) {
				t.Errorf("%d torn bytes", got.Torn)
			}
		})
	}
}
