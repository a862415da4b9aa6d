//go:build e2e && unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// firstLists is how long toolgate lets the first lists wait for the scenario
// server. They wait no longer than it takes to know the server, so this is
// generous.
const firstLists = "60s"

// stopTime is how long toolgate may take to end after its input has ended.
const stopTime = 20 * time.Second

// gateway is a running "toolgate stdio" with one upstream server.
type gateway struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
}

// startGateway starts toolgate with the server at url mounted without a
// namespace, since the scenarios ask for their tools by name. Configuration and
// state are below folder. What toolgate logs goes to standard error, which the
// suite keeps. It is killed when ctx ends.
func startGateway(ctx context.Context, binary, folder, url string) (*gateway, error) {
	type object = map[string]any
	config, err := json.Marshal(object{
		"mcpServers": object{"scenario": object{"type": "http", "url": url}},
		"toolgate": object{"servers": object{"scenario": object{
			"namespace": "",
			// Everything that the server may ask of a client is allowed, which is not the
			// default.
			"client_requests": object{"sampling": "allow", "elicitation": "allow", "roots": "allow"},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	file := filepath.Join(folder, "servers.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	home := filepath.Join(folder, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, fmt.Errorf("making a home folder: %w", err)
	}
	g := &gateway{cmd: exec.CommandContext(ctx, binary, "stdio", file, "--wait", firstLists)}
	g.cmd.Dir = folder
	g.cmd.Env = environment(folder)
	g.cmd.Stderr = os.Stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.cmd.Cancel = func() error { return syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("opening standard input: %w", err)
	}
	if g.out, err = g.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("opening standard output: %w", err)
	}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting toolgate: %w", err)
	}
	return g, nil
}

// environment is toolgate's environment: its state is below folder.
func environment(folder string) []string {
	home := filepath.Join(folder, "home")
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"XDG_STATE_HOME=" + filepath.Join(home, ".local", "state"),
		"XDG_DATA_HOME=" + filepath.Join(home, ".local", "share"),
		"XDG_CACHE_HOME=" + filepath.Join(home, ".cache"),
		"TMPDIR=" + folder,
		"LANG=C.UTF-8",
		"NO_COLOR=1",
		// Otherwise a program with the race detector sleeps for a second as it ends.
		"GORACE=atexit_sleep_ms=10",
	}
}

// end closes toolgate's input and waits until it has ended, which it must by
// itself and with success. read is closed once its output has been read to the
// end. It is called once.
func (g *gateway) end(read <-chan struct{}) error {
	closing := g.in.Close()
	kill := time.AfterFunc(stopTime, func() { _ = g.cmd.Cancel() })
	defer kill.Stop()
	<-read
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("toolgate has not ended well: %w", err)
	}
	if closing != nil {
		return fmt.Errorf("closing the input of toolgate: %w", closing)
	}
	return nil
}
