//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/orphan"
)

// patience is how long a test waits for what happens at once.
const patience = 20 * time.Second

// heldOpen waits until the other end of a pipe was closed by everyone that had it,
// which is when the last of the processes has ended.
func heldOpen(t *testing.T, reader *os.File) {
	t.Helper()
	if err := reader.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, reader); err != nil {
		t.Errorf("something still runs: %v", err)
	}
}

// startChild starts a deed whose output is a pipe that is returned with it.
func startChild(ctx context.Context, t *testing.T, p Policy, deed ...string) (*Process, *os.File) {
	t.Helper()
	pr, err := Command(ctx, p, Program{Path: testBinary(t), Args: append([]string{childMark}, deed...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pr.Close() })
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	pr.Cmd.Stdout = writer
	err = pr.Start()
	_ = writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	return pr, reader
}

func policyOfFamilies(t *testing.T) Policy {
	return Policy{Mode: Auto, Temp: true, Run: []string{testBinary(t)}}
}

// The program ends by itself, and leaves a process behind: in its group, and in a
// session of its own.
func TestNothingIsLeftBehind(t *testing.T) {
	eachMachine(t, func(t *testing.T, _ machine) {
		for _, deed := range []string{"spawn", "leave"} {
			pr, reader := startChild(t.Context(), t, policyOfFamilies(t), deed)
			_ = pr.Wait()
			heldOpen(t, reader)
		}
	})
}

func TestEndOfContextEndsAll(t *testing.T) {
	eachMachine(t, func(t *testing.T, _ machine) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pr, reader := startChild(ctx, t, policyOfFamilies(t), "family")
		waitLines(t, reader, "hanging", 2)
		cancel()
		if err := pr.Wait(); err == nil {
			t.Error("it ended well")
		}
		heldOpen(t, reader)
	})
}

func TestCloseEndsAll(t *testing.T) {
	eachMachine(t, func(t *testing.T, _ machine) {
		pr, reader := startChild(t.Context(), t, policyOfFamilies(t), "family")
		waitLines(t, reader, "hanging", 2)
		if err := pr.Close(); err != nil {
			t.Error(err)
		}
		heldOpen(t, reader)
		if _, err := os.Lstat(pr.Temp); !os.IsNotExist(err) {
			t.Errorf("the private folder: %v", err)
		}
	})
}

// The gateway is killed and can do nothing any more. What the program has started ends
// all the same.
func TestEndOfTheGatewayEndsTheProgram(t *testing.T) {
	for name := range machines() {
		t.Run(name, func(t *testing.T) {
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			gateway := exec.CommandContext(t.Context(), testBinary(t), childMark, "gateway", name)
			gateway.Stdout, gateway.Stderr = writer, os.Stderr
			if err := gateway.Start(); err != nil {
				t.Fatal(err)
			}
			_ = writer.Close()
			waitLines(t, reader, "hanging", 2)
			if err := gateway.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = gateway.Wait()
			heldOpen(t, reader)
		})
	}
}

func waitLines(t *testing.T, reader *os.File, want string, n int) {
	t.Helper()
	if err := reader.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(io.LimitReader(reader, 1<<20))
	for lines.Scan() {
		if strings.Contains(lines.Text(), want) {
			if n--; n == 0 {
				return
			}
		}
	}
	t.Fatalf("%q did not come: %v", want, lines.Err())
}

func init() {
	// A gateway that runs a confined process and does nothing else.
	deeds["gateway"] = func(args []string) (string, error) {
		m := machines()[args[0]]
		theMachine = func() machine { return m }
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		orphan.Guard(func(err error) { fmt.Fprintln(os.Stderr, err) })
		pr, err := Command(context.Background(), Policy{Mode: Auto, Run: []string{self}}, Program{Path: self, Args: []string{childMark, "family"}})
		if err != nil {
			return "", err
		}
		pr.Cmd.Stdout = os.Stdout
		if err := pr.Start(); err != nil {
			return "", err
		}
		return "", pr.Wait()
	}
	// A process with one child in its group, and one in a session of its own where
	// that is allowed; both write that they hang.
	deeds["family"] = func(args []string) (string, error) {
		if _, err := deeds["leave"](nil); err != nil {
			if _, err := deeds["spawn"](nil); err != nil {
				return "", err
			}
		}
		return deeds["hang"](args)
	}
}
