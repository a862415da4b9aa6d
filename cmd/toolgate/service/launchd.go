package service

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/failure"
)

// label is the agent of launchd.
const label = "com.github.toolgate.toolgate"

// launchd is the manager of agents (launchd.plist(5), launchctl(1)).
type launchd struct{}

func (launchd) path() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", failure.Newf(failure.Config, "find the folder of agents: %w", err)
	}
	return filepath.Join(home, "Library", "LaunchAgents", label+".plist"), nil
}

func (launchd) unit(g gateway) (string, error) {
	var b strings.Builder
	b.WriteString(xml.Header)
	b.WriteString(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	fmt.Fprintf(&b, "<!-- %s -->\n<plist version=\"1.0\">\n<dict>\n", written)
	entry := func(name, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", name, value) }
	entry("Label", element(label))
	line := []string{element(g.program)}
	for _, arg := range g.args() {
		line = append(line, element(arg))
	}
	entry("ProgramArguments", "<array>\n\t\t"+strings.Join(line, "\n\t\t")+"\n\t</array>")
	var env strings.Builder
	for _, v := range g.env {
		fmt.Fprintf(&env, "\t\t<key>%s</key>\n\t\t%s\n", v[0], element(v[1]))
	}
	entry("EnvironmentVariables", "<dict>\n"+env.String()+"\t</dict>")
	entry("WorkingDirectory", element(g.home)) // as systemd does
	entry("RunAtLoad", "<true/>")
	entry("KeepAlive", "<dict>\n\t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>") // started again when it fails
	entry("ThrottleInterval", "<integer>10</integer>")                                   // and at most every ten seconds
	entry("ExitTimeOut", fmt.Sprintf("<integer>%d</integer>", stopSeconds))
	to := element(logFile(g.home))
	entry("StandardOutPath", to)
	entry("StandardErrorPath", to)
	b.WriteString("</dict>\n</plist>\n")
	return b.String(), nil
}

func logFile(home string) string { return filepath.Join(home, "Library", "Logs", "toolgate.log") }

// element is a text of a property list.
func element(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return "<string>" + b.String() + "</string>"
}

// reload does nothing: launchd reads an agent when it is started, and at login.
func (launchd) reload(context.Context) error { return nil }

func (launchd) next(path string, replaced bool) string {
	start := fmt.Sprintf("launchctl bootstrap %s %s", domain(), shellQuoted(path))
	if replaced {
		return fmt.Sprintf("launchctl bootout %s/%s; %s", domain(), label, start)
	}
	return start
}

func (launchd) log() string { return "~/Library/Logs/toolgate.log" }

func (launchd) stays() string { return "" }

func (launchd) stop(ctx context.Context, _ string) error {
	out, err := launchctl(ctx, "bootout", domain()+"/"+label)
	if err != nil && strings.Contains(out, "No such process") {
		return nil // it was not started
	}
	return err
}

func (launchd) state(ctx context.Context) (string, bool, error) {
	out, err := launchctl(ctx, "print", domain()+"/"+label)
	if err != nil {
		return "launchd does not know it", false, nil //nolint:nilerr // this is how it says so
	}
	state, pid := "unknown", ""
	for line := range strings.Lines(out) { // the first of each is that of the agent
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case name == "state" && state == "unknown":
			state = value
		case name == "pid" && pid == "":
			pid = value
		}
	}
	if state != "running" {
		return state, false, nil
	}
	return fmt.Sprintf("%-10s pid %s, starts when you log in", state, pid), true, nil
}

// domain is that of the user who is logged in.
func domain() string { return fmt.Sprintf("gui/%d", os.Getuid()) }

func launchctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "launchctl", args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, exec.ErrNotFound):
		return "", failure.Newf(failure.Unreachable, "launchctl is not installed")
	}
	return text, failure.Newf(failure.Unreachable, "`launchctl %s` failed: %s", strings.Join(args, " "), text)
}

// shellQuoted is a word for a shell.
func shellQuoted(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
