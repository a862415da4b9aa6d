//go:build unix

package system_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/native/plugins/system"
)

// write writes files below a folder, and makes links of those that begin with "->".
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if to, link := strings.CutPrefix(text, "->"); link {
			must(t, os.MkdirAll(filepath.Join(dir, to), 0o700))
			must(t, os.Symlink(filepath.Join(dir, to), path))
			continue
		}
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// program writes a script that stands for a program of the system.
func program(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700)) //nolint:gosec // it is run
	return path
}

func TestGPUs(t *testing.T) {
	cards := t.TempDir()
	write(t, cards, map[string]string{
		"card0/device/driver": "->drivers/amdgpu", "card0/device/product_name": "Radeon\x1b[31m Pro\n", "card0/device/gpu_busy_percent": "37\n",
		"card0/device/mem_info_vram_total": "17163091968\n", "card0/device/mem_info_vram_used": "123456\n",
		"card0-DP-1/device/driver": "->drivers/amdgpu2", "card1/device/driver": "->drivers/i915", "card1/device/gpu_busy_percent": "many\n",
		"card2/device/driver": "->drivers/nvidia", "card3/device/vendor": "0x10de\n",
	})
	nvidia := program(t, "nvidia-smi", `case "$1" in --query-gpu=*) ;; *) exit 1;; esac
echo 'NVIDIA A100-SXM4-40GB, 12, 40960, 1024'
echo 'NVIDIA "odd", [N/A], [N/A], 7'
`)
	for name, tc := range map[string]struct {
		config system.Config
		want   string // the processors
		says   string // what this machine does not tell
	}{
		"none": {config: system.Config{Cards: t.TempDir()}, want: "null", says: "gpu: no driver tells of one"},
		"of the kernel": {config: system.Config{Cards: cards}, want: `[{"name":"Radeon?[31m Pro","driver":"amdgpu","percent":37,"memory_total":17163091968,"memory_used":123456},` +
			`{"name":"card1","driver":"i915"}]`},
		"of nvidia-smi": {config: system.Config{Cards: t.TempDir(), Nvidia: nvidia}, want: `[{"name":"NVIDIA A100-SXM4-40GB","driver":"nvidia","percent":12,"memory_total":42949672960,"memory_used":1073741824},` +
			`{"name":"NVIDIA \"odd\"","driver":"nvidia","memory_used":7340032}]`},
		"a driver that fails":     {config: system.Config{Cards: t.TempDir(), Nvidia: program(t, "nvidia-smi", "echo x; exit 9\n")}, want: "null", says: "gpu: nvidia-smi does not answer"},
		"a program that is gone":  {config: system.Config{Cards: t.TempDir(), Nvidia: "/none/such"}, want: "null", says: "gpu: nvidia-smi does not answer"},
		"a driver that says more": {config: system.Config{Cards: t.TempDir(), Nvidia: program(t, "nvidia-smi", "yes 'a, 1, 2, 3'\n")}, want: strings.Repeat(`{"name":"a","driver":"nvidia","percent":1,"memory_total":2097152,"memory_used":3145728},`, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct {
				GPUs        json.RawMessage
				Unavailable []string
			}
			must(t, call(t, open(t, tc.config)["metrics_snapshot"], `{}`, &got))
			text := strings.ReplaceAll(string(got.GPUs), "\ufffd", "?")
			if text == "" {
				text = "null"
			}
			if tc.want != text && (name != "a driver that says more" || !strings.Contains(text, tc.want) || strings.Count(text, "name") != 64) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tc.want, text))
			}
			if says := strings.Join(got.Unavailable, ","); !strings.Contains(says, tc.says) || tc.says == "" && strings.Contains(says, "gpu") {
				t.Errorf("%q, want %q", says, tc.says)
			}
		})
	}
}

func TestReadJournal(t *testing.T) {
	journal := program(t, "journalctl", `for a; do case "$a" in
--unit=none.service) exit 0;;
--unit=fails.service) echo no; exit 1;;
--unit=*) echo "$a";;
--lines=*) n="${a#--lines=}";;
esac; done
i=0; while [ $i -lt 30 ] && [ $i -lt $n ]; do echo "line $i of $(printf 'x\033')"; i=$((i+1)); done
`)
	if _, there := open(t, system.Config{Journal: journal})["read_journal"]; there {
		t.Error("the journal is read though nobody has allowed it")
	}
	tool := open(t, system.Config{Journal: journal, ReadJournal: true})["read_journal"]
	type end struct {
		Lines    []string
		Complete bool
	}
	for args, want := range map[string]end{
		`{"lines":2}`:                          {Lines: []string{"line 1 of x", "line 0 of x"}},
		`{"lines":2,"unit":"ssh@a-b.service"}`: {Lines: []string{"line 0 of x", "--unit=ssh@a-b.service"}},
		`{"contains":"line 2","lines":3}`:      {Lines: []string{"line 21 of x", "line 20 of x", "line 2 of x"}},
		`{"contains":"line 29"}`:               {Lines: []string{"line 29 of x"}, Complete: true},
		`{"contains":"nothing"}`:               {Lines: []string{}, Complete: true},
		`{"unit":"none.service"}`:              {Lines: []string{}, Complete: true},
	} {
		var got end
		must(t, call(t, tool, args, &got))
		for i, line := range got.Lines {
			got.Lines[i] = strings.TrimRight(strings.ReplaceAll(line, "\ufffd", ""), "?\x1b")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	for args, want := range map[string]string{
		`{"lines":0}`: "between 1 and 5000", `{"lines":5001}`: "between 1 and 5000", `{"unit":"--help"}`: "name of a unit", `{"unit":"a b"}`: "name of a unit",
		`{"unit":"-x"}`: "name of a unit", `{"unit":"fails.service"}`: "group systemd-journal",
	} {
		if err := call(t, tool, args, &end{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	none := open(t, system.Config{ReadJournal: true})["read_journal"]
	if err := call(t, none, `{}`, &end{}); err == nil || !strings.Contains(err.Error(), "no journalctl") {
		t.Errorf("without a program: %v", err)
	}
	// What is printed is bounded, and a line that is not whole is left out.
	small := open(t, system.Config{Journal: program(t, "journalctl", "yes 0123456789\n"), ReadJournal: true, MaxBytes: 1030})["read_journal"]
	var got end
	must(t, call(t, small, `{"lines":5000}`, &got))
	if len(got.Lines) != 93 || got.Complete || got.Lines[0] != "0123456789" {
		t.Error(fmt.Sprint(len(got.Lines), got.Complete))
	}
}
