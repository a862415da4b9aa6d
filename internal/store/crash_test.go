package store_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
)

// A process that is killed while it writes loses nothing that it has acknowledged.
func TestKilledProcessKeepsWhatItCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	acknowledged := 0
	for range 3 {
		cmd, lines := startChild(t, path)
		for lines.Scan() {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatalf("child said %q", lines.Text())
			}
			acknowledged = max(acknowledged, n)
			if n == 200 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait() //nolint:errcheck // it was killed

		s := open(t, store.Options{Path: path})
		for i := range acknowledged + 1 {
			if _, ok, err := s.Meta().Get(t.Context(), fmt.Sprintf("n/%07d", i)); err != nil || !ok {
				t.Fatalf("entry %d of %d: found %v, error %v", i, acknowledged, ok, err)
			}
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
