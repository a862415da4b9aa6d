//go:build linux

// Command picture draws docs/picture.svg, the picture of the README: what a person sees who
// types a few commands of toolgate on a terminal. It runs them for that (Linux only).
//
//	picture [-check] TOOLGATE FILE
//
// With -check it writes nothing, and fails if the picture shows something else than the
// program prints. Times may differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/terminal"
)

const (
	columns = 100
	rows    = 40
	// patience bounds the whole run.
	patience = time.Minute
)

// configuration is what the gateway of the picture serves.
const configuration = `mcpServers:
  demo: { command: toolgate, args: [demo-server] }
toolgate:
  native: { util: {}, fs: { roots: ["."] } }
`

// address is where it listens. It is written into the picture.
const address = "127.0.0.1:7777"

// scene are the commands that are typed while `toolgate up` runs in a terminal of its own.
// Those that fail are refused on purpose.
var scene = [][]string{
	{"call", "demo__add", "a=2", "b=9007199254740991"},
	{"mode", "LOCKDOWN", "--reason", "an agent runs wild"},
	{"call", "demo__add", "a=2", "b=2"},
	{"why", "demo__add"},
}

func main() {
	check := flag.Bool("check", false, "compare the picture with what the program prints")
	listen := flag.String("listen", address, "`address` to listen on; the picture shows "+address)
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err := run(ctx, flag.Arg(0), flag.Arg(1), *listen, *check)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, toolgate, file, listen string, check bool) error {
	windows, err := perform(ctx, toolgate, listen)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, draw(windows), 0o644)
	}
	picture, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	shows, prints := comparable(text(picture)), comparable(text(draw(windows)))
	if shows != prints {
		return fmt.Errorf("%s is out of date; run make picture. It shows\n%s\nand the program prints\n%s", file, shows, prints)
	}
	return nil
}

// window is a terminal in the picture.
type window struct {
	title string
	lines [][]terminal.Cell
}

// perform types the commands in an empty home.
func perform(ctx context.Context, toolgate, listen string) (all []window, err error) {
	home, err := os.MkdirTemp("", "tg")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	if toolgate, err = filepath.Abs(toolgate); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(home, "toolgate.yaml"), []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	if err := os.Symlink(toolgate, filepath.Join(home, "toolgate")); err != nil {
		return nil, err
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, toolgate, args...)
		cmd.Dir = home
		cmd.Env = []string{
			"HOME=" + home, "PATH=" + home, "TERM=xterm-256color", "LANG=C.UTF-8", "TOOLGATE_KEYRING=file",
			"TOOLGATE_LISTEN_HTTP=" + listen, "TOOLGATE_LISTEN_METRICS=", "TOOLGATE_LISTEN_CONSOLE=",
		}
		return cmd
	}
	if err := command("trust").Run(); err != nil {
		return nil, fmt.Errorf("toolgate trust: %w", err)
	}
	up := command("up")
	gateway, err := terminal.Start(up, columns, rows)
	if err != nil {
		return nil, err
	}
	defer func() {
		end := up.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, end, up.Wait(), gateway.Close())
	}()
	for !strings.Contains(terminal.Text(gateway.Lines()), "\nNext: ") {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no gateway within %v:\n%s", patience, terminal.Text(gateway.Lines()))
		case <-time.After(20 * time.Millisecond):
		}
	}
	first := append([][]terminal.Cell{prompt([]string{"up"})}, gateway.Lines()...)
	second := window{title: "another terminal"}
	for _, args := range scene {
		lines, err := typed(command, args)
		if err != nil {
			return nil, err
		}
		second.lines = append(append(second.lines, prompt(args)), lines...)
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	all = []window{{title: "toolgate", lines: first}, second}
	for _, w := range all {
		for i, line := range w.lines {
			w.lines[i] = replaced(replaced(line, listen, address), "user "+me.Username, "user anna")
		}
	}
	return all, nil
}

// typed runs a command on a terminal.
func typed(command func(...string) *exec.Cmd, args []string) ([][]terminal.Cell, error) {
	cmd := command(args...)
	t, err := terminal.Start(cmd, columns, rows)
	if err != nil {
		return nil, err
	}
	err = cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return nil, err
	}
	err = t.Close()
	return t.Lines(), err
}

// prompt is a line with a command.
func prompt(args []string) []terminal.Cell {
	words := []string{"$", "toolgate"}
	for _, a := range args {
		if strings.Contains(a, " ") {
			a = `"` + a + `"`
		}
		words = append(words, a)
	}
	var line []terminal.Cell
	for _, r := range strings.Join(words, " ") {
		line = append(line, terminal.Cell{Rune: r, Bold: true})
	}
	return line
}

// replaced is a line with one text in the place of another.
func replaced(line []terminal.Cell, from, to string) []terminal.Cell {
	for i := range line {
		if strings.HasPrefix(terminal.Text([][]terminal.Cell{line[i:]}), from) {
			n := len([]rune(from))
			var other []terminal.Cell
			for _, r := range to {
				c := line[i]
				c.Rune = r
				other = append(other, c)
			}
			return append(slices.Clone(line[:i]), append(other, replaced(line[i+n:], from, to)...)...)
		}
	}
	return line
}
