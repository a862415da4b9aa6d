package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// build compiles toolgate for a platform into a file. Nothing of this machine is in it:
// neither paths nor the settings of its user.
func build(ctx context.Context, s source, p platform, to string) error {
	_, err := run(ctx, s.root, buildEnv(os.Environ(), p), "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags", "-s -w -buildid= -X "+module+"/internal/version.Version="+s.version,
		"-o", to, "./cmd/toolgate")
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

// buildEnv returns an environment with the settings of the go command that decide what
// it builds. Those that decide where it finds things stay.
func buildEnv(env []string, p platform) []string {
	set := []string{
		"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-trimpath", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
	}
	kept := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(kept, set...)
}

// extras are the files that go with the program, the same on every platform.
type extras struct {
	documents   []file // LICENSE, README, CHANGELOG
	notices     []byte // the licences of what is compiled in
	manual      []file // name.1
	completions map[string][]byte
	unit        []byte // of systemd
}

// program is toolgate for one platform.
type program struct {
	platform platform
	path     string
	info     *buildinfo.BuildInfo
}

// open reads what a program that was built records about itself.
func open(p platform, path string) (program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("%s: %w", p, err)
	}
	return program{platform: p, path: path, info: info}, nil
}

// collect gathers what goes with the programs. runnable is a toolgate for this machine,
// which writes its own manual and completions.
func collect(ctx context.Context, s source, runnable, dir string, programs []program) (extras, error) {
	x := extras{completions: map[string][]byte{}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return x, err
		}
		x.documents = append(x.documents, file{name: name, data: data})
	}
	manual := filepath.Join(dir, "man")
	if _, err := run(ctx, dir, nil, runnable, "man", manual); err != nil {
		return x, err
	}
	pages, err := os.ReadDir(manual)
	if err != nil {
		return x, err
	}
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(manual, page.Name()))
		if err != nil {
			return x, err
		}
		x.manual = append(x.manual, file{name: page.Name(), data: data})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := run(ctx, dir, nil, runnable, "completion", shell)
		if err != nil {
			return x, err
		}
		x.completions[shell] = []byte(text)
	}
	if x.unit, err = os.ReadFile(filepath.Join(s.root, "examples", "deploy", "toolgate.service")); err != nil {
		return x, err
	}
	x.notices, err = notices(ctx, s, programs)
	return x, err
}
