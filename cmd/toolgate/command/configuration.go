package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/demo"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/secrets"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/envfile"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
)

// LoadConfig finds and reads the configuration of a command. Without a file anywhere it
// returns the demo.
func (o *Options) LoadConfig() (*config.Config, error) {
	path, err := o.FindFile()
	if err != nil {
		return nil, err
	}
	return o.ReadConfig(path)
}

// FindFile finds the configuration of a command. It returns "" for the demo.
func (o *Options) FindFile() (string, error) {
	userDir, _ := os.UserConfigDir()
	path, err := config.FindFile("", o.Config, userDir, os.LookupEnv)
	return path, failure.New(failure.Config, err)
}

// ReadConfig reads a configuration. It asks a person for what the file asks for.
func (o *Options) ReadConfig(path string) (*config.Config, error) {
	return o.ReadConfigWith(path, promptInput)
}

// FindOwnFile finds the configuration of a command that clients start in other people's
// folders. It uses a file in the working folder only if its user has accepted that.
// Otherwise it mentions the file in a note.
func (o *Options) FindOwnFile() (string, error) {
	if !named(o) {
		if path, err := acceptedHere(); path != "" || err != nil {
			return path, err
		}
	}
	userDir, _ := os.UserConfigDir()
	path, err := config.FindOwnFile("", o.Config, userDir, os.LookupEnv)
	if err != nil {
		return "", failure.New(failure.Config, err)
	}
	if !named(o) {
		noteUnused(path)
	}
	return path, nil
}

// noteUnused names a configuration in the working folder that is not used.
func noteUnused(path string) {
	here, err := os.Stat(config.FileName)
	if err != nil {
		return
	}
	if used, err := os.Stat(path); err == nil && os.SameFile(here, used) {
		return
	}
	if abs, err := filepath.Abs(config.FileName); err == nil {
		output.Warn("%s is not used: clients start this command in other people's folders, where a file could choose what runs; to use it, accept it with `toolgate trust %s`", abs, abs)
	}
}

// ReadConfigWith reads a configuration. It asks a person through ask; nil asks nobody.
func (o *Options) ReadConfigWith(path string, ask func(id, description string, password bool) (string, error)) (*config.Config, error) {
	flags := maps.Clone(o.Set)
	if flags == nil {
		flags = make(map[string]string)
	}
	if o.Listen != "" {
		flags["listen.http"] = o.Listen
	}
	if o.ShippedSeed {
		flags["registry.shipped_seed"] = "true"
	}
	lookup, beside, err := Variables(path)
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	kept, read := secrets.Reading()
	opts := config.Options{LookupEnv: lookup, LookupSecret: kept, Environ: os.Environ(), Flags: flags, Input: ask}
	if self, err := os.Executable(); err == nil {
		opts.Self = append(opts.Self, self)
	}
	var c *config.Config
	var changing []string // which are watched
	if path == "" {
		c, err = config.Default(opts)
		if err == nil {
			err = demo.Add(c)
		}
	} else {
		var more []string
		if opts.With, more, err = further(o.With); err == nil {
			c, err = config.Load(path, opts)
		}
		changing = append(changing, more...)
	}
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	c.Files = slices.Concat(c.Files, read(), changing)
	if beside != "" {
		c.Files = append(c.Files, beside)
	}
	if err := onlyOwn(c); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	return c, nil
}

// further returns how to read files whose servers join those of another one, and the
// absolute paths of the files with their variables.
func further(paths []string) (with []config.Further, beside []string, err error) {
	for _, path := range paths {
		lookup, own, err := Variables(path)
		if err != nil {
			return nil, nil, err
		}
		if own != "" {
			beside = append(beside, own)
		}
		with = append(with, config.Further{Path: path, LookupEnv: lookup})
	}
	return with, beside, nil
}

// TakeoverConfig returns the configuration for a process that takes over from a gateway that
// has gone. No person asked for this start. So it uses the file as it is now only if that
// configuration was in force. Otherwise it uses what this process read when a person
// started it, and the change waits for a reload.
func (o *Options) TakeoverConfig(c *config.Config, state *statedir.Dir) *config.Config {
	text, err := os.ReadFile(filepath.Join(state.Path, statedir.InForceFile))
	if err != nil {
		return c
	}
	now, err := o.ReadConfig(c.Path)
	if err != nil || statedir.Digest(now) == "" || statedir.Digest(now) != strings.TrimSpace(string(text)) {
		return c
	}
	return now
}

// VariablesFile returns where the variables of a configuration may be stored beside it:
// toolgate.env for toolgate.yaml.
func VariablesFile(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".env"
}

// Variables returns a lookup for the variables that a configuration refers to. It looks
// in the environment first, then in the .env file beside the configuration, which only
// its user may read. beside is the absolute path of that file; empty if there is none.
func Variables(path string) (lookup func(string) (string, bool), beside string, err error) {
	if path == "" {
		return os.LookupEnv, "", nil
	}
	name := VariablesFile(path)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.LookupEnv, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("check the variables of %s: %w", path, err)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, "", fmt.Errorf("%s holds secrets, and others may read it (mode %#o); run `chmod 600 %s`", name, info.Mode().Perm(), name)
	}
	kept, err := envfile.Read(name)
	if err != nil {
		return nil, "", fmt.Errorf("read the variables of %s in %s: %w", path, name, err)
	}
	if beside, err = filepath.Abs(name); err != nil {
		return nil, "", err
	}
	return func(key string) (string, bool) {
		if v, ok := os.LookupEnv(key); ok {
			return v, true
		}
		v, ok := kept[key]
		return v, ok
	}, beside, nil
}
