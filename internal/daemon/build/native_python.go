package build

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/plugins/code"
)

// pythonTime is how long a script may look for the interpreter that it stands for.
const pythonTime = 5 * time.Second

// asksPython makes an interpreter say which one it is, and where its own modules are.
const asksPython = "import json, sys; print(json.dumps([sys.executable, sys.base_prefix, sys.base_exec_prefix]))"

// RealPython is the interpreter that a path stands for, and the folders of its
// modules where they are not with it. A version manager puts a script in its place,
// which finds it with programs and variables that a run in the sandbox has not; it
// is asked as whoever started the gateway would have it run. What does not answer
// is returned as it is.
func RealPython(path string) (python string, library []string) {
	if !isScript(path) {
		return path, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pythonTime)
	defer cancel()
	ask := exec.CommandContext(ctx, path, "-I", "-S", "-c", asksPython)
	ask.Dir = string(filepath.Separator) // no folder has a say in which one it is
	ask.WaitDelay = time.Second
	out, err := ask.Output()
	var said [3]string
	if err != nil || json.Unmarshal(out, &said) != nil {
		return path, nil
	}
	if !filepath.IsAbs(said[0]) || !regularFile(said[0]) || isScript(said[0]) {
		return path, nil
	}
	for _, prefix := range said[1:] {
		if filepath.IsAbs(prefix) {
			library = append(library, group.Existing(filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"))...)
		}
	}
	return filepath.Clean(said[0]), library
}

// codePython is the interpreter that a configuration names for code__execute, or
// the one that would be found.
func codePython(n *code.Settings) string {
	if n.Python != "" {
		return n.Python
	}
	return group.Command("python3")
}

// isScript tells whether a program is run by another one.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 2)
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == "#!"
}
