package entry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/toolgate/toolgate/native/toolkit"
)

// The handshake of go-plugin, and what tells a plugin that it was started by its
// host and not by hand. They are those of native/proto, which would bring along
// what this package does without; a test holds them together.
const (
	cookieKey   = "TOOLGATE_PLUGIN"
	cookieValue = "5a6c0b86a5f2-tool-plugin"
	handshake   = "1|1|unix|stdio|grpc\n"
)

// maxHello bounds the host's first line.
const maxHello = 1 << 20

// chosen is the plugin that this process serves; empty in every other process.
var chosen string

// host is how the host is spoken to.
var host struct {
	in  *os.File
	out *os.File
}

// Go initialises, among the packages whose imports are, the one with the smallest
// path first. This one imports little and so comes early: the handshake is told
// long before the rest of the program could be.
func init() {
	if len(os.Args) < 3 || os.Args[1] != Argument {
		return
	}
	if os.Getenv(cookieKey) != cookieValue {
		fmt.Fprintln(os.Stderr, "toolgate: this is how toolgate starts its own tools; it is of no use by hand")
		os.Exit(1)
	}
	chosen = os.Args[2]
	host.in, host.out = os.Stdin, os.Stdout
	os.Stdout = os.Stderr // what a tool prints is no part of the protocol
	if _, err := host.out.WriteString(handshake); err != nil {
		os.Exit(1)
	}
}

// Enter serves a plugin, and does not return, in a process that was started for
// it; everywhere else it does nothing. It is called while the package that has the
// plugin is initialised, with the plugin's key.
func Enter(name string, plugin func() toolkit.Plugin) {
	if chosen == "" || chosen != name {
		return
	}
	if err := enter(plugin()); err != nil {
		logError("the plugin ends", "error", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func enter(p toolkit.Plugin) error {
	in := bufio.NewReaderSize(host.in, 32<<10)
	line, err := readHello(in)
	if err != nil {
		return err
	}
	var hello Hello
	if err := json.Unmarshal(line, &hello); err != nil {
		return fmt.Errorf("read what the host says first: %w", err)
	}
	s := &service{plugin: p}
	if s.layers, err = confine(&hello.Policy); err != nil {
		return err
	}
	return newConn(in, host.out, s).serve()
}

func readHello(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for len(line) < maxHello {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case err == bufio.ErrBufferFull: //nolint:errorlint // it is the very error
		case err == io.EOF:
			os.Exit(0) // the host has ended
		default:
			return nil, fmt.Errorf("read what the host says first: %w", err)
		}
	}
	return nil, fmt.Errorf("what the host says first is longer than %d bytes", maxHello)
}
