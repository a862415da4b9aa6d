//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A service starts a configuration without anybody being asked, so naming it is not
// enough: it has to be there, valid and accepted. Nothing is written before.
func TestServiceInstall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["XDG_RUNTIME_DIR"] = h.dir // no manager answers there
	unit := h.path("config/systemd/user/toolgate.service")
	missing := h.run(t, "service", "install", "nowhere.yaml")
	h.write(t, servers{"x": fake()}, nil)
	for name, tt := range map[string]struct {
		o    outcome
		want string
	}{
		"a missing file":           {missing, "nowhere.yaml"},
		"a file that nobody knows": {h.run(t, "service", "install", h.file), "run `toolgate trust " + h.file + "`"},
		"named with -c":            {h.run(t, "service", "install", "-c", h.file, "--print"), "is not accepted as it is now"},
	} {
		if tt.o.code != exitConfig || !strings.Contains(tt.o.stderr, tt.want) || tt.o.stdout != "" {
			t.Errorf("%s: %+v", name, tt.o)
		}
	}
	if o := h.run(t, "service", "uninstall"); o.code != exitUsage || !strings.Contains(o.stderr, "no service is installed") {
		t.Errorf("uninstall without a service: %+v", o)
	}

	h.ok(t, "trust", h.file)
	printed := h.ok(t, "service", "install", filepath.Base(h.file), "--print")
	for _, want := range []string{`up -c "` + h.file + `"`, `ExecStart=":` + program + `"`, `Environment="TOOLGATE_STATE=` + h.env["TOOLGATE_STATE"] + `"`} {
		if !strings.Contains(printed, want+"\n") && !strings.Contains(printed, want+" ") {
			t.Errorf("the unit lacks %s:\n%s", want, printed)
		}
	}
	more := h.keep(t, "more.json", `{"mcpServers":{}}`, 0o600)
	if o := h.run(t, "service", "install", h.file, more, "--print"); o.code != exitConfig || !strings.Contains(o.stderr, "run `toolgate trust "+more+"`") {
		t.Errorf("a further file that is not accepted: %+v", o)
	}
	h.ok(t, "trust", more)
	if got, want := h.ok(t, "service", "install", h.file, more, "--print"), ` up "`+h.file+`" "`+more+`"`+"\n"; !strings.Contains(got, want) {
		t.Errorf("the unit of two files lacks %s:\n%s", want, got)
	}
	if _, err := os.Lstat(unit); err == nil {
		t.Fatal("--print has written the unit")
	}
	if o := h.run(t, "service", "install", h.file); o.code != exitUnreachable || !strings.Contains(o.stdout, "wrote "+unit) || strings.Contains(o.stdout, "to start it") {
		t.Errorf("install without a manager: %+v", o)
	}
	if text, err := os.ReadFile(unit); err != nil || string(text) != printed {
		t.Errorf("what was written is not what was printed: %v\n%s", err, text)
	}
	if o := h.run(t, "service", "status"); o.code != exitUnreachable || !strings.Contains(o.stdout, unit) {
		t.Errorf("status: %+v", o)
	}
	if o := h.run(t, "service", "uninstall"); o.code != exitUnreachable || !strings.Contains(o.stdout, "removed "+unit) {
		t.Errorf("uninstall: %+v", o)
	}
	if _, err := os.Lstat(unit); err == nil {
		t.Error("the unit is still there")
	}
}
