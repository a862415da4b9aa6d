//go:build !windows

package cli

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/fakeserver"
)

// Relations in a SpiceDB stay with the tool, and so do those that sync writes.
func TestTwinsKeepTheirRelations(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, "server:a#executor@user:local", "tool:a__pid#banned@user:local")
	h := newHome(t)
	section := asking(s.Start(t))
	h.write(t, servers{"a": fake("name=ECHO", "name=PID")}, section)
	if got := h.ok(t, "spicedb", "sync", h.file, "-q"); !strings.Contains(got, "written") {
		t.Fatalf("sync: %s", got)
	}
	r := daemontest.Run(t, h.Home)
	c := r.Client(t, "")
	list, err := names(t, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if strings.HasPrefix(name, "a__pid") {
			t.Errorf("%s is listed", name)
		}
	}
	if len(list) != len(fakeserver.Tools)+1 {
		t.Errorf("%d tools are listed: %q", len(list), list)
	}
}
