package daemon

import (
	"cmp"
	"reflect"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
)

// settings are those of a gateway: as they were at its start, and in force. They are safe
// for concurrent use.
type settings struct {
	boot config.Toolgate // some of these stay in force to the end

	mu      sync.Mutex
	file    *config.Config   // in force, as it was read
	applied *config.Config   // file, with the tools that are declared elsewhere; nil before the first
	pending []config.Pending // changes of the file that a person has to ask for
	later   []string         // settings of the file that the next start takes over
	refused string           // why the file is not in force as it is; empty if it is
}

// current is the configuration in force, as it was read.
func (s *settings) current() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}

// inForce is the configuration in force, with the tools that are declared elsewhere.
func (s *settings) inForce() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.applied, s.file)
}

// use puts a configuration in force.
func (s *settings) use(file, applied *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.applied = file, applied
}

// setWaiting notes that a reload succeeded, and what it did not take over: pending waits for
// a person, later for the next start.
func (s *settings) setWaiting(pending []config.Pending, later []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.later, s.refused = pending, later, ""
}

// setRefused notes why a reload failed.
func (s *settings) setRefused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = err.Error()
}

// whyRefused returns why the last reload failed, empty if it did not.
func (s *settings) whyRefused() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// waiting returns what the last reload did not take over. Callers do not change it.
func (s *settings) waiting() (pending []config.Pending, later []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending, s.later
}

// changedSettings are the paths of the settings that differ, sorted.
func changedSettings(a, b *config.Toolgate) []string {
	left, right := reflect.ValueOf(*a), reflect.ValueOf(*b)
	var out []string
	var compare func(x, y reflect.Value, path string)
	compare = func(x, y reflect.Value, path string) {
		for _, f := range decode.Fields(x.Type()) {
			at := tree.Join(path, f.Tag.Get("config"))
			left, right := x.FieldByIndex(f.Index), y.FieldByIndex(f.Index)
			switch {
			case at == "servers":
			case left.Kind() == reflect.Struct:
				compare(left, right, at)
			case !reflect.DeepEqual(left.Interface(), right.Interface()):
				out = append(out, at)
			}
		}
	}
	compare(left, right, "")
	slices.Sort(out)
	return out
}
