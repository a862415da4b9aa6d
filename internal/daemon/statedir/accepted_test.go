package statedir

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/toolgate/toolgate/config"
)

func TestAccepted(t *testing.T) {
	t.Setenv("TOOLGATE_STATE", t.TempDir())
	file := filepath.Join(t.TempDir(), "toolgate.yaml")
	s, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	is := func(sum string, want bool) {
		t.Helper()
		if got, err := s.Accepted(sum); got != want || err != nil {
			t.Errorf("%s: accepted %v, %v, want %v", sum, got, err, want)
		}
	}
	one, two := config.Sum([]byte("one")), config.Sum([]byte("two"))
	is(one, false)
	is("", false)
	for _, sum := range []string{one, one, two, ""} {
		if err := s.Accept(sum); err != nil {
			t.Fatal(err)
		}
	}
	is(one, true)
	is(two, true)
	is("", false)
	is(one[:10], false)
	for i := range maxAccepted - 1 { // the oldest gives way
		if err := s.Accept(config.Sum([]byte(strconv.Itoa(i)))); err != nil {
			t.Fatal(err)
		}
	}
	is(one, false)
	is(two, true)
	if info, err := os.Stat(filepath.Join(s.Path, acceptedFile)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	other, err := Open(file + ".other")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := other.Accepted(two); got {
		t.Error("a text is accepted under another path")
	}
	for range 2 {
		if err := s.Forget(); err != nil {
			t.Fatal(err)
		}
		is(two, false)
	}
	if err := os.Mkdir(filepath.Join(s.Path, acceptedFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Accepted(two); got || err == nil {
		t.Errorf("an unreadable list: %v, %v", got, err)
	}
}

func TestAcceptFiles(t *testing.T) {
	t.Setenv("TOOLGATE_STATE", t.TempDir())
	dir := t.TempDir()
	first, further := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	state, err := Open(first)
	if err != nil {
		t.Fatal(err)
	}
	one, two := config.Sum([]byte("one")), config.Sum([]byte("two"))
	if err := state.AcceptFiles(&config.Config{Path: first, Sum: one, With: []config.Source{{Path: further, Sum: two}}}); err != nil {
		t.Fatal(err)
	}
	for path, sums := range map[string][2]string{first: {one, two}, further: {two, one}} { // accepted, and not
		s, err := Find(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, sum := range sums {
			if ok, err := s.Accepted(sum); err != nil || ok != (i == 0) {
				t.Errorf("%s: text %d is accepted %v, %v", path, i, ok, err)
			}
		}
	}
}
