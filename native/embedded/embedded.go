package embedded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/native/handshake"
	"github.com/toolgate/toolgate/native/toolapi"
)

// maxHello limits the first line of the host, in bytes.
const maxHello = 1 << 20

// Enter serves a plugin and does not return in a process that was started for it. In
// every other process it does nothing. The package of the plugin calls it in its init,
// with the plugin's key.
func Enter(name string, plugin func() *toolapi.Plugin) {
	if handshake.Chosen == "" || handshake.Chosen != name {
		return
	}
	if err := enter(plugin()); err != nil {
		logError("the plugin ends", "error", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func enter(p *toolapi.Plugin) error {
	in := bufio.NewReaderSize(handshake.In, 32<<10)
	line, err := readHello(in)
	if err != nil {
		return err
	}
	var hello Hello
	if err := json.Unmarshal(line, &hello); err != nil {
		return fmt.Errorf("read what the host says first: %w", err)
	}
	s := &service{name: p.Name(), served: toolapi.NewServer(p)}
	if s.layers, err = confine(&hello.Policy); err != nil {
		return err
	}
	// Processes that a tool starts end with this process.
	unguard := orphan.Guard(func(err error) {
		logError("what tools have started may outlive this process: its guardian does not run, or has ended and is started again", "error", err.Error())
	})
	defer unguard()
	return newConn(in, handshake.Out, s).serve()
}

func readHello(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for len(line) < maxHello {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case err == bufio.ErrBufferFull: //nolint:errorlint // bufio returns this value itself
		case err == io.EOF:
			os.Exit(0) // the host has ended
		default:
			return nil, fmt.Errorf("read what the host says first: %w", err)
		}
	}
	return nil, fmt.Errorf("what the host says first is longer than %d bytes", maxHello)
}
