package group

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// Command returns where a program is; empty where it is not found, which the tools
// say when they are called.
func Command(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	return path
}

// Existing returns those of some paths of the system that there are. It changes paths.
func Existing(paths ...string) []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// CheckInside reports folders that are in none of the roots. n is their list, which
// has the path.
func CheckInside(p *tree.Problems, n *tree.Node, path string, folders, roots []string) {
	for i, folder := range folders {
		inside := slices.ContainsFunc(roots, func(root string) bool {
			rel, err := filepath.Rel(root, folder)
			return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
		})
		if !inside {
			p.At(n.Item(i), fmt.Sprintf("%s[%d]", path, i), "write a folder in one of the roots", "%s is in none of the roots", folder)
		}
	}
}
