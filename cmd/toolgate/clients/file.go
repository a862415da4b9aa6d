package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a place where a client may have a file.
type File struct {
	Scope string // user or project
	// Path may contain {home}, {config} (the user's configuration folder) and {project}.
	// Windows is the path on Windows if it differs.
	Path, Windows string
}

func user(path string) File    { return File{Scope: "user", Path: path} }
func project(path string) File { return File{Scope: "project", Path: "{project}/" + path} }

// Places are the folders that paths are relative to. An empty one is unknown, so no file
// is found in it.
type Places struct {
	Home, Config, Project string
	Windows               bool
}

// In returns the path of a file; empty if its folder is unknown.
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

// Found is an existing file.
type Found struct {
	Client *Client
	File   File
	Path   string
}

// Installed returns the existing files of all clients, in the order of the table. Files
// that cannot be examined count as absent.
func Installed(p Places) []Found {
	var out []Found
	for _, c := range table {
		out = append(out, c.Existing(p)...)
	}
	return out
}

// Existing returns the existing files of a client, the most significant first.
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

// Home returns the file of a scope into which an entry is written: the first that exists,
// else the first whose client seems to be installed, else the first.
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
