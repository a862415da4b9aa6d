package terminal

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal on which one command runs, and what it shows. It is safe
// for concurrent use.
type Terminal struct {
	person *os.File // the side of the person
	read   chan struct{}

	mu     sync.Mutex
	screen *screen
}

// Start starts a command on a terminal of so many columns and rows. The terminal is its
// standard input, output and error, and its controlling terminal. Whoever calls Start waits
// for the command and then calls Close.
func Start(cmd *exec.Cmd, columns, rows int) (*Terminal, error) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	t := &Terminal{person: person, read: make(chan struct{}), screen: newScreen(columns, rows)}
	if err := t.start(cmd, columns, rows); err != nil {
		person.Close()
		return nil, err
	}
	go t.follow()
	return t, nil
}

func (t *Terminal) start(cmd *exec.Cmd, columns, rows int) error {
	fd := int(t.person.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("ask for the number of a pseudo-terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock a pseudo-terminal: %w", err)
	}
	size := unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size); err != nil {
		return fmt.Errorf("set the size of a pseudo-terminal: %w", err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	defer side.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

// follow shows what the command writes, until nobody has the terminal open any more.
func (t *Terminal) follow() {
	defer close(t.read)
	buffer := make([]byte, 4096)
	for {
		n, err := t.person.Read(buffer)
		t.mu.Lock()
		t.screen.write(buffer[:n])
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Type types a text, as a person would.
func (t *Terminal) Type(text string) error {
	_, err := io.WriteString(t.person, text)
	return err
}

// Lines returns what the terminal shows and showed, without empty lines at the end.
func (t *Terminal) Lines() [][]Cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.cells()
}

// Title returns the title of the terminal's window.
func (t *Terminal) Title() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.title
}

// Clear empties the screen, and what it showed before.
func (t *Terminal) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen = newScreen(t.screen.columns, t.screen.rows)
}

// Close waits until everything that the command started has ended, or at least does not
// have the terminal any more.
func (t *Terminal) Close() error {
	<-t.read
	return t.person.Close()
}
