package sandbox

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPoliciesThatAreRefused(t *testing.T) {
	folder := t.TempDir()
	for _, tt := range []struct {
		name string
		give Policy
		want string
	}{
		{"mode", Policy{Mode: "maybe"}, "the mode is"},
		{"network", Policy{Network: "some"}, "the network is"},
		{"relative", Policy{Read: []string{"here"}}, "must be absolute"},
		{"empty", Policy{Write: []string{""}}, "must be absolute"},
		{"upwards", Policy{Write: []string{folder + string(filepath.Separator) + ".."}}, "must be absolute"},
		{"repeated slash", Policy{Run: []string{folder + "//x"}}, "must be absolute"},
		{"zero byte", Policy{Run: []string{folder + "\x00"}}, "must be absolute"},
		{"negative", Policy{Memory: -1}, "a limit is"},
		{"negative number", Policy{Processes: -1}, "a limit is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Available(tt.give); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if _, err := Command(t.Context(), tt.give, Program{Path: folder}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	p, err := Policy{}.checked()
	if err != nil {
		t.Fatal(err)
	}
	if p.Mode != Required || p.Network != NoNetwork || p.CPU != time.Minute || p.Memory != 1<<30 ||
		p.FileSize != 1<<30 || p.Files != 256 || p.Processes != 64 {
		t.Errorf("got %+v", p)
	}
}

func TestLayersAsText(t *testing.T) {
	if got := (Layers{}).String(); got != "none" {
		t.Errorf("got %q", got)
	}
	l := Layers{
		InForce: []Layer{Limits, Calls},
		Missing: []Missing{{Files, "the kernel has none", true}, {Namespaces, "not allowed", false}},
	}
	if got := l.String(); got != "limits seccomp" {
		t.Errorf("got %q", got)
	}
	err := l.refusal()
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "landlock: the kernel has none") || strings.Contains(err.Error(), "not allowed") {
		t.Errorf("got %v", err)
	}
	if !l.Has(Calls) || l.Has(Files) {
		t.Error("Has is wrong")
	}
}
