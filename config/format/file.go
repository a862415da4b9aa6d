package format

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/toolgate/toolgate/config/units"
)

// ErrNotRegular is that something is a folder, a device or a pipe.
var ErrNotRegular = errors.New("not a regular file")

// ReadFile reads a regular file that is no larger than a configuration may be.
// Devices and pipes are refused, because reading them may never end.
func ReadFile(path string) ([]byte, error) { return ReadAtMost(path, MaxFileSize) }

// ReadAtMost is [ReadFile] for a file of at most limit bytes.
func ReadAtMost(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %w", path, ErrNotRegular)
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
