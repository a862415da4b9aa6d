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

// pythonTime bounds how long a launcher script may look for its interpreter.
const pythonTime = 5 * time.Second

// asksPython makes an interpreter report its path and the folders of its modules.
const asksPython = "import json, sys; print(json.dumps([sys.executable, sys.base_prefix, sys.base_exec_prefix]))"

// RealPython returns the interpreter behind a path, and the folders of its modules
// where they lie elsewhere. A version manager puts a launcher script there. The script
// needs variables and programs that a sandboxed run does not have, so it is run here
// with the environment of the gateway's user. If it does not answer, the path is
// returned unchanged.
func RealPython(path string) (python string, library []string) {
	if !isScript(path) {
		return path, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pythonTime)
	defer cancel()
	ask := exec.CommandContext(ctx, path, "-I", "-S", "-c", asksPython)
	ask.Dir = string(filepath.Separator) // no working directory may influence the choice
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

// codePython returns the interpreter that a configuration names for code__execute, or
// the default one.
func codePython(n *code.Settings) string {
	if n.Python != "" {
		return n.Python
	}
	return group.Command("python3")
}

// isScript tells whether another program runs this one.
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
