package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

// FileName is the name of a toolgate file that is found without being named.
const FileName = "toolgate.yaml"

// FindFile decides which file to read: the argument, else the --config flag,
// else the variable TOOLGATE_CONFIG, else toolgate.yaml in the working folder,
// else toolgate/toolgate.yaml in the user's configuration folder (configDir,
// usually os.UserConfigDir; empty: none). A file that is named is returned
// whether or not it exists, so that a misspelt name is reported rather than
// replaced by another file. The result is "" where nothing is named or found.
func FindFile(arg, flag, configDir string, lookupEnv func(string) (string, bool)) (string, error) {
	return findFile(arg, flag, []string{FileName}, configDir, lookupEnv)
}

// FindOwnFile is [FindFile] for a program that others start, in a folder of their
// choice: the working folder is not looked into. Whoever can write a file there, as the
// author of a repository can, would otherwise choose the commands that run.
func FindOwnFile(arg, flag, configDir string, lookupEnv func(string) (string, bool)) (string, error) {
	return findFile(arg, flag, nil, configDir, lookupEnv)
}

func findFile(arg, flag string, candidates []string, configDir string, lookupEnv func(string) (string, bool)) (string, error) {
	if arg != "" {
		return arg, nil
	}
	if flag != "" {
		return flag, nil
	}
	if lookupEnv != nil {
		if path, ok := lookupEnv("TOOLGATE_CONFIG"); ok && path != "" {
			return path, nil
		}
	}
	if configDir != "" {
		candidates = append(candidates, filepath.Join(configDir, "toolgate", FileName))
	}
	for _, path := range candidates {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", &tree.Error{File: path, Problem: "the file cannot be looked at: " + err.Error(), Hint: "check its permissions", Err: err}
		}
	}
	return "", nil
}

var errNotRegular = errors.New("not a regular file")

// ReadRegular reads a regular file that is no larger than a configuration may be.
// Devices and pipes are refused, because reading them may never end.
func ReadRegular(path string) ([]byte, error) { return readRegular(path, format.MaxFileSize) }

// readRegular reads a regular file of at most limit bytes. Devices and pipes
// are refused, because reading them may never end.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %w", path, errNotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %s", path, units.Size(limit))
	}
	return data, nil
}
