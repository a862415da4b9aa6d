package statedir

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// gateway is a state folder whose control socket may listen.
func gateway(t *testing.T, config string) *Dir {
	t.Helper()
	d, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func listenOn(t *testing.T, d *Dir) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func announce(t *testing.T, d *Dir, config string, started time.Time) (withdraw func()) {
	t.Helper()
	withdraw, err := d.Announce(&Running{PID: os.Getpid(), Config: config, URL: "http://127.0.0.1:7777", Version: "1", Started: started})
	if err != nil {
		t.Fatal(err)
	}
	return withdraw
}

// stateRoot gives the test a state folder of its own.
func stateRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "s")
	t.Setenv("TOOLGATE_STATE", root)
	return root
}

func found(t *testing.T) []string {
	t.Helper()
	all, err := FindRunning(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var configs []string
	for _, r := range all {
		configs = append(configs, r.Config)
	}
	return configs
}

func TestFindRunning(t *testing.T) {
	root := stateRoot(t)
	now := time.Now()
	if got := found(t); got != nil {
		t.Errorf("without a state folder: %q", got)
	}
	work, home := filepath.Join(root, "work.yaml"), filepath.Join(root, "home.yaml")
	first := gateway(t, work)
	listenOn(t, first)
	if got := found(t); got != nil {
		t.Errorf("before it is announced: %q", got)
	}
	withdraw := announce(t, first, work, now)
	second := gateway(t, home)
	ends := listenOn(t, second)
	announce(t, second, home, now.Add(-time.Minute))
	demo := gateway(t, "")
	listenOn(t, demo)
	announce(t, demo, "", now.Add(time.Minute))
	if got, want := found(t), []string{home, work, ""}; !slices.Equal(got, want) {
		t.Errorf("three that run: %q, want %q", got, want)
	}
	ends.Close() // as a killed process leaves it: the note is still there
	if err := os.WriteFile(second.Socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := found(t), []string{work, ""}; !slices.Equal(got, want) {
		t.Errorf("one was killed: %q, want %q", got, want)
	}
	withdraw()
	if got, want := found(t), []string{""}; !slices.Equal(got, want) {
		t.Errorf("one ended: %q, want %q", got, want)
	}
}

// Notes that nobody can have written, and those of others, name no gateway.
func TestFindRunningAmongRubbish(t *testing.T) {
	root := stateRoot(t)
	good := filepath.Join(root, "good.yaml")
	text, err := json.Marshal(Running{PID: 1, Config: good})
	if err != nil {
		t.Fatal(err)
	}
	for name, rubbish := range map[string]string{
		"empty": "", "not JSON": "{", "a list": "[]", "no process": `{"config":""}`, "a relative file": `{"pid":1,"config":"x.yaml"}`,
		"of another": string(text), "huge": string(text) + strings.Repeat(" ", maxRunningFile), "long": `{"pid":1,"config":"` + strings.Repeat("a", 100) + `"}`,
	} {
		d := gateway(t, filepath.Join(root, name))
		listenOn(t, d)
		if err := os.WriteFile(filepath.Join(d.Path, runningFile), []byte(rubbish), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	further := filepath.Join(root, "further.yaml")
	d := gateway(t, further)
	listenOn(t, d)
	note, err := json.Marshal(Running{PID: 1, Config: further, With: []string{"relative.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, runningFile), note, 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		d := gateway(t, filepath.Join(root, "link"))
		listenOn(t, d)
		elsewhere := filepath.Join(t.TempDir(), "note")
		if err := os.WriteFile(elsewhere, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, filepath.Join(d.Path, runningFile)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "a file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = gateway(t, good)
	listenOn(t, d)
	announce(t, d, good, time.Now())
	if got, want := found(t), []string{good}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A gateway of another user is none of ours, even if its note can be read.
func TestFindRunningOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	root := stateRoot(t)
	file := filepath.Join(root, "a.yaml")
	d := gateway(t, file)
	listenOn(t, d)
	announce(t, d, file, time.Now())
	if err := os.Chown(filepath.Join(d.Path, runningFile), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if got := found(t); got != nil {
		t.Errorf("%q", got)
	}
}

func BenchmarkFindRunning(b *testing.B) {
	root := filepath.Join(b.TempDir(), "s")
	b.Setenv("TOOLGATE_STATE", root)
	for i := range 100 {
		file := filepath.Join(root, string(rune('a'+i%26))+string(rune('a'+i/26)))
		d, err := Open(file)
		if err != nil {
			b.Fatal(err)
		}
		if i%10 == 0 {
			l, err := net.Listen("unix", d.Socket)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { l.Close() })
		}
		if _, err := d.Announce(&Running{PID: 1, Config: file, Version: "1"}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if all, err := FindRunning(b.Context()); err != nil || len(all) != 10 {
			b.Fatal(len(all), err)
		}
	}
}
