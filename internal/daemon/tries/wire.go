package tries

import (
	"bytes"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
)

const (
	// maxMessages is how many messages of a call are kept: the first ones and the last ones.
	maxMessages = 40
	// messageText bounds what is kept of one message, callText of all messages of a call. A
	// message beyond that keeps leastText. All are bytes.
	messageText = 64 << 10
	callText    = 512 << 10
	leastText   = 2 << 10
)

// wire is the client's end of a stream. It tells of each message that passes.
type wire struct {
	*lineclient.Pipe
	in, out line
	kept    func(admin.TryMessage)
	room    func() int // for the text of the next message
}

// line is a message of which the end was not there yet.
type line struct {
	bytes int
	text  []byte
	room  int
}

// Read implements [io.Reader].
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Pipe.Read(p)
	w.pass(&w.in, false, p[:n])
	return n, err
}

// Write implements [io.Writer]. A message is known before it is sent.
func (w *wire) Write(p []byte) (int, error) {
	w.pass(&w.out, true, p)
	return w.Pipe.Write(p)
}

// pass takes bytes of one direction.
func (w *wire) pass(l *line, sent bool, p []byte) {
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte{'\n'})
		if l.bytes == 0 {
			l.room = w.room()
		}
		l.bytes += len(part)
		l.text = append(l.text, part[:min(len(part), max(0, l.room-len(l.text)))]...)
		if whole {
			w.kept(admin.TryMessage{Sent: sent, Bytes: l.bytes, Text: string(wholeRunes(l.text, l.bytes))})
			*l = line{}
		}
		p = rest
	}
}

// wholeRunes returns a text that was cut from one of a length, without a character of which
// only the beginning is there.
func wholeRunes(text []byte, length int) []byte {
	if len(text) == length {
		return text
	}
	for i := 1; i <= utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}
