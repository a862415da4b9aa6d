package native

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// Options are what a [Host] is made of. Folder and Logger are required.
type Options struct {
	// Folder is where the sockets of plugins are. It is the host's alone: it is
	// made, or emptied of what was left, with nobody else let in.
	Folder string
	// NoSockets is why there can be no sockets in it, which programs outside of the
	// gateway need: these do not start then, and say it. Nil is no reason.
	NoSockets error
	// Version of the gateway, which plugins are told.
	Version string
	Logger  *slog.Logger
	// Changed is told the key of a plugin whose listing or state is another. It
	// must not block. Nil is nobody.
	Changed func(key string)

	health time.Duration // between two questions whether a plugin is alive; healthEvery when zero
}

// Host makes plugins. It is safe for concurrent use.
type Host struct {
	opts Options
	self string // the program of the gateway
}

// NewHost returns a host with an empty folder of its own.
func NewHost(o Options) (*Host, error) {
	if o.Logger == nil || o.Folder == "" {
		return nil, errors.New("a host of plugins needs a folder and a logger")
	}
	folder, err := filepath.Abs(o.Folder)
	if err != nil {
		return nil, fmt.Errorf("find the folder of plugin sockets: %w", err)
	}
	o.Folder = folder
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	// What a gateway left that was killed is of no use to anybody.
	if err := sandbox.RemoveAll(folder); err != nil {
		return nil, fmt.Errorf("remove the sockets that were left in %s: %w", folder, err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the sockets of plugins: %w", err)
	}
	if o.health == 0 {
		o.health = healthEvery
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of the gateway: %w", err)
	}
	return &Host{opts: o, self: self}, nil
}

// Plugin returns the plugin of a spec. It runs while [Plugin.Run] does.
func (h *Host) Plugin(s Spec) *Plugin {
	return newPlugin(h, s.withDefaults())
}
