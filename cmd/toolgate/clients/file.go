package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is where a client may have one.
type File struct {
	Scope string // user or project
	// Path has {home}, {config} (the user's configuration folder) and {project}
	// in it. Windows is another one there; empty is the same.
	Path, Windows string
}

func user(path string) File    { return File{Scope: "user", Path: path} }
func project(path string) File { return File{Scope: "project", Path: "{project}/" + path} }

// Places are the folders that paths are relative to. An empty one is not known,
// and no file is in it.
type Places struct {
	Home, Config, Project string
	Windows               bool
}

// In returns the path of a file; empty where its folder is not known.
func (f File) In(p Places) string {
	path := f.Path
	if p.Windows && f.Windows != "" {
		path = f.Windows
	}
	for name, dir := range map[string]string{"{home}": p.Home, "{config}": p.Config, "{project}": p.Project} {
		if rest, ok := strings.CutPrefix(path, name+"/"); ok {
			if dir == "" {
				return ""
			}
			return filepath.Join(dir, filepath.FromSlash(rest))
		}
	}
	return ""
}

// Found is a file that is there.
type Found struct {
	Client *Client
	File   File
	Path   string
}

// Installed returns the files of all clients that are there, in the order of the
// table. What cannot be looked at is not there.
func Installed(p Places) []Found {
	var out []Found
	for _, c := range table {
		out = append(out, c.Existing(p)...)
	}
	return out
}

// Existing returns the files of a client that are there, the most significant
// first.
func (c *Client) Existing(p Places) []Found {
	var out []Found
	for _, f := range c.Files {
		path := f.In(p)
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			out = append(out, Found{c, f, path})
		}
	}
	return out
}

// Home returns the file of a scope in which an entry is written: the first that is
// there, else the first whose client seems to be installed, else the first.
func (c *Client) Home(p Places, scope string) (string, error) {
	first := ""
	var own []string
	for _, f := range c.Files {
		if path := f.In(p); path != "" && f.Scope == scope {
			own = append(own, path)
		}
	}
	for _, path := range own {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, err := os.Stat(filepath.Dir(path)); err == nil && first == "" {
			first = path
		}
	}
	switch {
	case first != "":
		return first, nil
	case len(own) > 0:
		return own[0], nil
	}
	return "", errors.New(c.Title + " has no file of the scope " + scope)
}
