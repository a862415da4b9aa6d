package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// variablesFile is where the variables of a configuration may be kept beside it:
// toolgate.env for toolgate.yaml.
func variablesFile(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".env"
}

// variables looks up what a configuration refers to: in the environment, and
// where it is not set there in the file beside the configuration, which only its
// user may read. beside is that file, absolute; empty where there is none.
func variables(path string) (lookup func(string) (string, bool), beside string, err error) {
	if path == "" {
		return os.LookupEnv, "", nil
	}
	name := variablesFile(path)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.LookupEnv, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("look at the variables of %s: %w", path, err)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, "", fmt.Errorf("%s holds secrets, and others may read it (mode %#o); run `chmod 600 %s`", name, info.Mode().Perm(), name)
	}
	kept, err := config.ReadEnvFile(name)
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
