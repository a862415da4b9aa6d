package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
)

const (
	// acceptedFile lists the texts of a configuration that its user has accepted, by
	// their SHA-256, the newest last.
	acceptedFile = "accepted.sha256"
	// maxAccepted bounds that list. Several texts are kept, because whoever switches
	// between branches returns to a text that was accepted before.
	maxAccepted = 64
)

// Accepted tells whether the user has accepted a text of the configuration, by its SHA-256. An
// empty one is never accepted.
func (s *Dir) Accepted(sum string) (bool, error) {
	all, err := s.accepted()
	return sum != "" && slices.Contains(all, sum), err
}

// Accept records that the user accepts a text of the configuration. If two processes do
// that at once, one of the texts may be lost, and is asked for again.
func (s *Dir) Accept(sum string) error {
	all, err := s.accepted()
	if err != nil {
		return err
	}
	if sum == "" || len(all) > 0 && all[len(all)-1] == sum {
		return nil
	}
	all = append(slices.DeleteFunc(all, func(known string) bool { return known == sum }), sum)
	if err := s.Replace(acceptedFile, strings.Join(all[max(0, len(all)-maxAccepted):], "\n")); err != nil {
		return fmt.Errorf("record that the configuration is accepted: %w", err)
	}
	return nil
}

// AcceptFiles records that the user accepts a configuration: each of its files as it is
// now, in the folder of that file. s is the folder of the first one.
func (s *Dir) AcceptFiles(c *config.Config) error {
	for _, f := range c.With {
		own, err := Open(f.Path)
		if err != nil {
			return err
		}
		if err := own.Accept(f.Sum); err != nil {
			return err
		}
	}
	return s.Accept(c.Sum)
}

// Forget removes every text that was accepted.
func (s *Dir) Forget() error {
	if err := os.Remove(filepath.Join(s.Path, acceptedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what was accepted: %w", err)
	}
	return nil
}

func (s *Dir) accepted() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(s.Path, acceptedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what was accepted: %w", err)
	}
	return strings.Fields(string(text)), nil
}
