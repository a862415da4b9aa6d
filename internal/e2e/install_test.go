//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// nodeBinary and pythonBinary are where the installed interpreters end up.
const (
	nodeBinary   = "node_modules/node/bin/node"
	pythonBinary = "bin/python"
)

// installNode puts the packages of node/package-lock.json, which include Node
// itself, into the cache, and the drivers beside them, where their imports
// resolve. It returns the path of the node binary.
func installNode(ctx context.Context) installed {
	src := filepath.Join(lab.root, "internal", "e2e", "node")
	dst := filepath.Join(lab.cache, "node")
	path := filepath.Join(dst, nodeBinary)
	err := once(dst, []string{filepath.Join(src, "package.json"), filepath.Join(src, "package-lock.json")}, path, func() error {
		for _, name := range []string{"package.json", "package-lock.json"} {
			if err := copyFile(filepath.Join(src, name), filepath.Join(dst, name)); err != nil {
				return err
			}
		}
		return command(ctx, dst, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error",
			"--omit-lockfile-registry-resolved=true")
	})
	if err != nil {
		return installed{err: fmt.Errorf("installing the npm packages of internal/e2e/node: %w", err)}
	}
	drivers, err := filepath.Glob(filepath.Join(src, "*.mjs"))
	if err != nil || len(drivers) == 0 {
		return installed{err: fmt.Errorf("finding the drivers in %s: %w", src, err)}
	}
	for _, driver := range drivers {
		if err := copyFile(driver, filepath.Join(dst, filepath.Base(driver))); err != nil {
			return installed{err: err}
		}
	}
	return installed{path: path}
}

// installPython makes a virtual environment with python/requirements.txt in the
// cache and returns the path of its interpreter.
func installPython(ctx context.Context) installed {
	requirements := filepath.Join(lab.root, "internal", "e2e", "python", "requirements.txt")
	dst := filepath.Join(lab.cache, "python")
	path := filepath.Join(dst, pythonBinary)
	err := once(dst, []string{requirements}, path, func() error { return environment(ctx, dst, requirements) })
	if err != nil {
		return installed{err: fmt.Errorf("installing the Python packages of internal/e2e/python: %w", err)}
	}
	return installed{path: path}
}

// environment makes a virtual environment with pinned packages.
func environment(ctx context.Context, dst, requirements string) error {
	if err := command(ctx, dst, "python3", "-m", "venv", "--clear", dst); err != nil {
		return err
	}
	return command(ctx, dst, filepath.Join(dst, pythonBinary), "-m", "pip", "install", "--quiet", "--no-deps", "--no-input",
		"--disable-pip-version-check", "--requirement", requirements)
}

// installPlugin makes the virtual environment of examples/plugin-python, as its
// README.md says, with what is generated from the published protocol. It returns
// the path of the environment.
func installPlugin(ctx context.Context) installed {
	requirements := filepath.Join(lab.root, "examples", "plugin-python", "requirements.txt")
	protocol := filepath.Join(lab.root, "native", "proto")
	dst := filepath.Join(lab.cache, "plugin")
	generated := filepath.Join(dst, "generated")
	err := once(dst, []string{requirements, filepath.Join(protocol, "plugin.proto")}, generated, func() error {
		if err := environment(ctx, dst, requirements); err != nil {
			return err
		}
		python := filepath.Join(dst, pythonBinary)
		site, err := exec.CommandContext(ctx, python, "-c", `import sysconfig; print(sysconfig.get_path("purelib"), end="")`).Output()
		if err != nil {
			return fmt.Errorf("finding the packages of a virtual environment: %w", err)
		}
		if err := command(ctx, dst, python, "-m", "grpc_tools.protoc", "-I", protocol,
			"--python_out="+string(site), "--grpc_python_out="+string(site), "plugin.proto"); err != nil {
			return err
		}
		return os.WriteFile(generated, nil, 0o644)
	})
	if err != nil {
		return installed{err: fmt.Errorf("installing what examples/plugin-python needs: %w", err)}
	}
	return installed{path: dst}
}

// once runs install unless dst was filled from the same inputs before and still
// holds want. The stamp is written last, so that a broken installation is
// repeated, and everything before it is removed first.
func once(dst string, inputs []string, want string, install func() error) error {
	sum := sha256.New()
	for _, input := range inputs {
		data, err := os.ReadFile(input)
		if err != nil {
			return fmt.Errorf("reading a pinned version list: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(input), len(data))
		sum.Write(data)
	}
	stamp := filepath.Join(dst, ".installed")
	mark := []byte(hex.EncodeToString(sum.Sum(nil)) + "\n")
	have, err := os.ReadFile(stamp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what is installed: %w", err)
	}
	if _, err := os.Stat(want); err == nil && bytes.Equal(have, mark) {
		return nil
	}
	defer preparing.begin("install " + filepath.Base(dst))()
	if err := os.RemoveAll(dst); err != nil {
		return fmt.Errorf("removing an older installation: %w", err)
	}
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return fmt.Errorf("making the installation folder: %w", err)
	}
	if err := install(); err != nil {
		return err
	}
	if _, err := os.Stat(want); err != nil {
		return fmt.Errorf("looking for what was installed: %w", err)
	}
	return os.WriteFile(stamp, mark, 0o644)
}

// quiet is how long the preparation says nothing at most.
const quiet = 20 * time.Second

// working are the steps of the preparation that have begun and not ended.
type working struct {
	mu    sync.Mutex
	began map[string]time.Time
}

var preparing = working{began: map[string]time.Time{}}

// begin says that a step begins. It returns what says that it has ended.
func (w *working) begin(step string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began[step] = time.Now()
	fmt.Fprintf(os.Stderr, "e2e: %s\n", step)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintf(os.Stderr, "e2e: %s: took %s\n", step, time.Since(w.began[step]).Round(100*time.Millisecond))
		delete(w.began, step)
	}
}

// telling says at short intervals what is still being done, until the returned function is
// called.
func telling(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(quiet):
			}
			preparing.mu.Lock()
			for _, step := range slices.Sorted(maps.Keys(preparing.began)) {
				fmt.Fprintf(os.Stderr, "e2e: %s: %s so far\n", step, time.Since(preparing.began[step]).Round(time.Second))
			}
			preparing.mu.Unlock()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// build compiles one command of this module or of a dependency.
func build(ctx context.Context, name, pkg string, flags ...string) installed {
	defer preparing.begin("build " + name)()
	path := filepath.Join(lab.bin, name)
	args := append([]string{"build", "-o", path}, flags...)
	if err := command(ctx, lab.root, "go", append(args, pkg)...); err != nil {
		return installed{err: fmt.Errorf("building %s: %w", pkg, err)}
	}
	return installed{path: path}
}

// command runs a program to its end and returns its output only as an error.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	ownGroup(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(out.String())
		if len(text) > 4000 {
			text = "..." + text[len(text)-4000:]
		}
		return fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(from), err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return fmt.Errorf("copying %s: %w", filepath.Base(from), err)
	}
	return nil
}
