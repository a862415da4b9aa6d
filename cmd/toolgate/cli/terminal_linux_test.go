package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/testwait"
)

// typist runs a command on a pseudo-terminal and types what it asks for.
type typist struct {
	person *os.File // the side of the person
	ended  chan int // gets the exit code

	mu   sync.Mutex
	seen strings.Builder
}

func (h *home) onTerminal(t *testing.T, args ...string) *typist {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &typist{person: person, ended: make(chan int, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	cmd := h.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	var reading sync.WaitGroup
	reading.Go(func() { // ends with the command, when nobody has the terminal open any more
		buffer := make([]byte, 4096)
		for {
			n, err := person.Read(buffer)
			p.mu.Lock()
			p.seen.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // the exit code tells
		p.ended <- cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		person.Close()
	})
	return p
}

func (p *typist) shows() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

// answer waits for a question and types an answer.
func (p *typist) answer(t *testing.T, question, text string) {
	t.Helper()
	testwait.Until(t, patience, "it asks "+question, func() bool { return strings.Contains(p.shows(), question) })
	if _, err := io.WriteString(p.person, text); err != nil {
		t.Fatal(err)
	}
}

// A secret is asked for without showing it, and Ctrl-C leaves the terminal as it was.
func TestSecretOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const value = "canary-on-the-terminal"
	p := h.onTerminal(t, "secret", "set", "TOKEN")
	p.answer(t, "TOKEN: ", value+"\n")
	if code := <-p.ended; code != exitOK || strings.Contains(p.shows(), value) || !strings.Contains(p.shows(), "TOKEN is in the sealed file") {
		t.Errorf("exit code %d: %q", code, p.shows())
	}
	h.writeText(t, "mcpServers: { a: { command: 'true', env: { T: '${keyring:TOKEN}' } } }\n")
	if got := h.ok(t, "validate", h.file); strings.Contains(got, "refused") {
		t.Error(got)
	}
	p = h.onTerminal(t, "secret", "set", "TOKEN")
	p.answer(t, "TOKEN: ", value+"-in-part\x03")
	if code := <-p.ended; code == exitOK || strings.Contains(p.shows(), value) || !strings.Contains(p.shows(), "nothing was changed") {
		t.Errorf("interrupted: exit code %d: %q", code, p.shows())
	}
	state, err := unix.IoctlGetTermios(int(p.person.Fd()), unix.TCGETS)
	if err != nil || state.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal does not show what is typed, %v", err)
	}
}

// On a terminal the import asks where credentials go, and takes a flag for the answer.
func TestImportOnATerminal(t *testing.T) {
	t.Parallel()
	const secret, question = "s3cr3t-on-the-terminal", "(API_TOKEN): keep in the key ring instead of "
	for name, tt := range map[string]struct {
		args     []string
		answer   string
		keyring  bool
		question bool
	}{
		"by default":  {nil, "\n", true, true},
		"yes":         {nil, "Y\n", true, true},
		"no":          {nil, "n\n", false, true},
		"flag":        {[]string{"--secrets"}, "", true, false},
		"flag for no": {[]string{"--secrets=false"}, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			delete(h.env, "TOOLGATE_LISTEN_HTTP")
			h.env["HOME"] = h.path("person")
			h.keep(t, "person/.cursor/mcp.json", `{"mcpServers":{"a":{"command":"true","env":{"API_TOKEN":"`+secret+`"}}}}`, 0o600)
			h.file = h.path("toolgate.yaml")
			p := h.onTerminal(t, append([]string{"import", "--write"}, tt.args...)...)
			if tt.question {
				p.answer(t, question, tt.answer)
			}
			if code := <-p.ended; code != exitOK || strings.Contains(p.shows(), secret) || strings.Contains(p.shows(), question) != tt.question {
				t.Errorf("exit code %d: %q", code, p.shows())
			}
			want := "${API_TOKEN}"
			if tt.keyring {
				want = "${keyring:API_TOKEN}"
			}
			if text := h.text(t, h.file); !strings.Contains(text, want) {
				t.Errorf("the file is\n%s", text)
			}
			if got := h.ok(t, "secret", "ls"); (got == "API_TOKEN\n") != tt.keyring {
				t.Errorf("the key ring has %q", got)
			}
		})
	}
}
