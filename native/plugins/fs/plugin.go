package fs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/plugins/files"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Name is the plugin's key in the configuration.
const Name = "fs"

// Config configures the plugin. All paths are absolute.
type Config struct {
	Roots []string `json:"roots"`
	// Write are the folders, roots or in roots, in which files may be changed.
	Write []string `json:"write,omitempty"`
	// Own are the gateway's own files and folders, out of reach whatever the roots.
	Own []string `json:"own,omitempty"`
	// Fixed are the files that servers are started from: they may be read, but never
	// changed.
	Fixed []string `json:"fixed,omitempty"`
	// Forbidden are globs of further paths that are out of reach.
	Forbidden []string `json:"forbidden,omitempty"`
	HardLinks bool     `json:"hard_links,omitempty"`
	// MaxBytes bounds how much of a file one call reads or writes; 0 is 10 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// defaultMax bounds how much of a file one call reads or writes.
const defaultMax = 10 << 20

func init() { embedded.Enter(Name, Plugin) }

// Plugin returns the plugin.
func Plugin() *toolapi.Plugin {
	s := &service{}
	p := toolapi.New(Name, "")
	p.Init = func(config []byte) error {
		if err := s.open(config); err != nil {
			return err
		}
		p.Add(s.tools()...)
		return nil
	}
	p.Close = func() {
		if s.tree != nil {
			s.tree.Close()
		}
	}
	return p
}

// service is the state that the tools share.
type service struct {
	tree *files.Tree
	max  int64
}

func (s *service) open(config []byte) error {
	var c Config
	if err := toolapi.ReadConfig(config, &c); err != nil {
		return err
	}
	tree, err := files.Open(files.Rules{
		Roots: c.Roots, Write: c.Write, Forbidden: c.Own, Globs: c.Forbidden, Fixed: c.Fixed, HardLinks: c.HardLinks,
	})
	if err != nil {
		return fmt.Errorf("open the folders: %w", err)
	}
	s.tree, s.max = tree, c.MaxBytes
	if s.max <= 0 {
		s.max = defaultMax
	}
	return nil
}

const category = "files"

func (s *service) tools() []toolapi.Tool {
	return []toolapi.Tool{
		{
			Name: "read_file", Title: "Read a file", Category: category, Risk: toolapi.Low,
			Description: "Read a file, or a part of it, by its absolute path. Text is returned as it is, anything else as base64; next_offset is there when the file goes on.",
			Input:       json.RawMessage(readInput), Output: json.RawMessage(readOutput),
			ReadOnly: true, Idempotent: true, Timeout: 30 * time.Second, RatePerHour: 3600, Run: s.read,
		},
		{
			Name: "list_directory", Title: "List a folder", Category: category, Risk: toolapi.Low,
			Description: "List what is in a folder, by its absolute path, in the order of names, a page at a time; next_after is there when there is more.",
			Input:       json.RawMessage(listInput), Output: json.RawMessage(listOutput),
			ReadOnly: true, Idempotent: true, Timeout: 30 * time.Second, RatePerHour: 3600, Run: s.list,
		},
		{
			Name: "write_file", Title: "Write a file", Category: category, Risk: toolapi.High,
			Description: "Write a whole file, by its absolute path: a new one, or in place of what it held. Readers see all of it or nothing of it.",
			Input:       json.RawMessage(writeInput), Output: json.RawMessage(writeOutput),
			Destructive: true, Idempotent: true, Timeout: 30 * time.Second, RatePerHour: 600, Run: s.write,
		},
		{
			Name: "delete_file", Title: "Delete a file", Category: category, Risk: toolapi.High,
			Description: "Delete a regular file, by its absolute path. It cannot be brought back.",
			Input:       json.RawMessage(deleteInput), Output: json.RawMessage(deleteOutput),
			Destructive: true, Timeout: 30 * time.Second, RatePerHour: 600, Run: s.remove,
		},
	}
}
