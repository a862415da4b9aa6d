// Command generate makes the Go code of plugin.proto with pinned generators. It
// needs protoc, which Debian has in protobuf-compiler, and runs in native/proto.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// generators are the plugins of protoc, with their versions.
var generators = []string{
	"google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
	"google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0",
}

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() (err error) {
	bin, err := os.MkdirTemp("", "generators")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	for _, g := range generators {
		if err := run([]string{"GOBIN=" + bin, "GOFLAGS="}, "go", "install", g); err != nil {
			return err
		}
	}
	path := "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")
	return run([]string{path}, "protoc", "--go_out=.", "--go_opt=paths=source_relative",
		"--go-grpc_out=.", "--go-grpc_opt=paths=source_relative", "plugin.proto")
}

func run(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:noctx // ends with this program
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}
