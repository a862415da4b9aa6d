package cli

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/terminal"
	"github.com/toolgate/toolgate/internal/testwait"
)

// typist runs a command on a pseudo-terminal and types what it asks for.
type typist struct {
	*terminal.Terminal

	ended   chan int // gets the exit code
	process *os.Process
}

// resizes changes the width of the terminal.
func (p *typist) resizes(t *testing.T, width int) {
	t.Helper()
	if err := p.Resize(width); err != nil {
		t.Fatal(err)
	}
}

// onTerminal runs a command on a terminal of 80 columns.
func (h *home) onTerminal(t *testing.T, args ...string) *typist {
	t.Helper()
	return h.onTerminalOf(t, 80, args...)
}

// terminalHeight is the number of lines of the terminals.
const terminalHeight = 24

// onTerminalOf runs a command on a terminal of this many columns.
func (h *home) onTerminalOf(t *testing.T, width int, args ...string) *typist {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	cmd := h.command(ctx, args...)
	on, err := terminal.Start(cmd, width, terminalHeight)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &typist{Terminal: on, ended: make(chan int, 1), process: cmd.Process}
	var waiting sync.WaitGroup
	waiting.Go(func() { // ends with the command
		_ = cmd.Wait() // the exit code tells
		on.WaitReleased()
		p.ended <- cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		cancel()
		waiting.Wait()
		_ = on.Close()
	})
	return p
}

// sees is what is on the screen, and above it.
func (p *typist) sees() (text string) {
	p.See(func(s *terminal.Screen) { text = s.String() })
	return text
}

// wraps is how many lines were too long for the screen.
func (p *typist) wraps() (n int) {
	p.See(func(s *terminal.Screen) { n = s.Wraps() })
	return n
}

// covered tells whether a program draws on all of the screen.
func (p *typist) covered() (is bool) {
	p.See(func(s *terminal.Screen) { is = s.Covered() })
	return is
}

// waits until the screen shows something.
func (p *typist) waits(t *testing.T, pattern string) {
	t.Helper()
	is := regexp.MustCompile(pattern)
	if !testwait.Within(patience, func() bool { return is.MatchString(p.sees()) }) {
		t.Fatalf("the screen never shows %s:\n%s", pattern, p.sees())
	}
}

// types presses keys.
func (p *typist) types(t *testing.T, keys string) {
	t.Helper()
	if err := p.Type(keys); err != nil {
		t.Fatal(err)
	}
}

// echoes tells whether the terminal shows what is typed, as a shell leaves it.
func (p *typist) echoes(t *testing.T) bool {
	t.Helper()
	is, err := p.Echoes()
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// answer waits for a question and types an answer.
func (p *typist) answer(t *testing.T, question, text string) {
	t.Helper()
	testwait.Until(t, patience, "it asks "+question, func() bool { return strings.Contains(p.Written(), question) })
	p.types(t, text)
}

// A secret is asked for without showing it, and Ctrl-C leaves the terminal as it was.
func TestSecretOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const value = "canary-on-the-terminal"
	p := h.onTerminal(t, "secret", "set", "TOKEN")
	p.answer(t, "TOKEN: ", value+"\n")
	if code := <-p.ended; code != exitOK || strings.Contains(p.Written(), value) || !strings.Contains(p.Written(), "TOKEN is in the sealed file") {
		t.Errorf("exit code %d: %q", code, p.Written())
	}
	h.writeText(t, "mcpServers: { a: { command: 'true', env: { T: '${keyring:TOKEN}' } } }\n")
	if got := h.ok(t, "validate", h.file); strings.Contains(got, "refused") {
		t.Error(got)
	}
	p = h.onTerminal(t, "secret", "set", "TOKEN")
	p.answer(t, "TOKEN: ", value+"-in-part\x03")
	if code := <-p.ended; code == exitOK || strings.Contains(p.Written(), value) || !strings.Contains(p.Written(), "nothing was changed") {
		t.Errorf("interrupted: exit code %d: %q", code, p.Written())
	}
	if !p.echoes(t) {
		t.Error("the terminal does not show what is typed")
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
			if code := <-p.ended; code != exitOK || strings.Contains(p.Written(), secret) || strings.Contains(p.Written(), question) != tt.question {
				t.Errorf("exit code %d: %q", code, p.Written())
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

// On a terminal a toolgate.yaml that may be somebody else's runs if its user says so.
// Every other answer leaves it, and the next start asks again.
func TestTrustOnATerminal(t *testing.T) {
	t.Parallel()
	const question = "toolgate.yaml in this folder is not accepted as it is now. Run it? [y/N] "
	h := newHome(t)
	h.writeText(t, "mcpServers: { a: { command: sh, args: ['-c', 'touch ran; exit 1'] } }\n")
	for _, tt := range []struct {
		name, answer, says string
	}{
		{"no", "n\n", "toolgate: toolgate.yaml is not run; `toolgate trust` accepts it"},
		{"nothing", "\n", "toolgate: toolgate.yaml is not run; `toolgate trust` accepts it"},
		{"something else", "yet another\n", "toolgate: toolgate.yaml is not run; `toolgate trust` accepts it"},
		{"Ctrl-D", "\x04", "toolgate: toolgate.yaml is not run: nobody answered"},
		{"Ctrl-C", "\x03", "toolgate: toolgate.yaml is not run: interrupted"},
	} {
		p := h.onTerminal(t, "up")
		p.waits(t, regexp.QuoteMeta("note: toolgate.yaml would run:\n  a            starts   sh -c touch ran; exit 1\n"+strings.TrimSpace(question)))
		p.types(t, tt.answer)
		if code := <-p.ended; code != exitConfig || !strings.Contains(p.sees(), tt.says) || !p.echoes(t) {
			t.Errorf("%s: exit code %d\n%s", tt.name, code, p.sees())
		}
		if _, err := os.Stat(h.path("ran")); err == nil {
			t.Fatalf("%s: the server was started", tt.name)
		}
	}
	p := h.onTerminal(t, "up")
	p.answer(t, question, "y\n")
	p.waits(t, `ready    0 of 1 server`)
	if _, err := os.Stat(h.path("ran")); err != nil {
		t.Error("the server was not started")
	}
	p.types(t, "\x03")
	if code := <-p.ended; code != exitOK {
		t.Errorf("exit code %d\n%s", code, p.sees())
	}
	if o := h.run(t, "ls"); o.code != exitOK {
		t.Errorf("what was accepted once is not run again: %+v", o)
	}
}
