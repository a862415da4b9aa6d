package terminal

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal on which one command runs, and what it shows. It is safe
// for concurrent use.
type Terminal struct {
	person *os.File // the side of the person
	read   chan struct{}

	mu      sync.Mutex
	screen  *Screen
	written strings.Builder
}

// Start starts a command on a terminal of so many columns and rows. The terminal is its
// standard input, output and error, and its controlling terminal. Whoever calls Start waits
// for the command and then calls Close.
func Start(cmd *exec.Cmd, columns, rows int) (*Terminal, error) {
	person, side, err := Open(columns, rows)
	if err != nil {
		return nil, err
	}
	defer side.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		person.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	t := &Terminal{person: person, read: make(chan struct{}), screen: NewScreen(columns, rows)}
	go t.follow()
	return t, nil
}

// Open opens a pseudo-terminal and returns the sides of a person and of a program.
func Open(columns, rows int) (person, program *os.File, err error) {
	person, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	if program, err = open(person, columns, rows); err != nil {
		person.Close()
		return nil, nil, err
	}
	return person, program, nil
}

func open(person *os.File, columns, rows int) (program *os.File, err error) {
	fd := int(person.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("ask for the number of a pseudo-terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock a pseudo-terminal: %w", err)
	}
	if err := setSize(person, columns, rows); err != nil {
		return nil, err
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	return program, nil
}

func setSize(person *os.File, columns, rows int) error {
	size := unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		return fmt.Errorf("set the size of a pseudo-terminal: %w", err)
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
		_, _ = t.screen.Write(buffer[:n])
		t.written.Write(buffer[:n])
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

// See calls look with the screen, which look must not keep.
func (t *Terminal) See(look func(*Screen)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look(t.screen)
}

// Written returns all that the command has written.
func (t *Terminal) Written() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written.String()
}

// Resize changes the width of the terminal.
func (t *Terminal) Resize(columns int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.Resize(columns)
	return setSize(t.person, columns, t.screen.rows)
}

// Echoes tells whether the terminal shows what is typed, as a shell leaves it.
func (t *Terminal) Echoes() (bool, error) {
	state, err := unix.IoctlGetTermios(int(t.person.Fd()), unix.TCGETS)
	if err != nil {
		return false, fmt.Errorf("ask for the state of a pseudo-terminal: %w", err)
	}
	return state.Lflag&unix.ECHO != 0 && state.Lflag&unix.ICANON != 0 && state.Oflag&unix.OPOST != 0, nil
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
	t.screen = NewScreen(t.screen.columns, t.screen.rows)
}

// WaitReleased waits until everything that the command started has ended, or at least does
// not have the terminal any more. Then all that was written is on the screen.
func (t *Terminal) WaitReleased() { <-t.read }

// Close is [Terminal.WaitReleased], and closes the terminal.
func (t *Terminal) Close() error {
	t.WaitReleased()
	return t.person.Close()
}
