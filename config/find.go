package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolgate/toolgate/config/tree"
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
