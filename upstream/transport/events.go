package transport

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/arena"
)

// errEventTooLarge says that a server-sent event is larger than the limit. What
// follows the event can be read.
var errEventTooLarge = errors.New("server-sent event is larger than the limit")

// maxEventRetry is the longest reconnection time that is believed.
const maxEventRetry = 24 * time.Hour

// sseEvent is one block of a server-sent event stream.
type sseEvent struct {
	// ID is the event id of this block, if HasID. An empty one takes back what
	// was the last event id.
	ID    string
	HasID bool
	// Event is the type, "message" where none is named.
	Event string
	// Data is all data lines joined with LF: empty but not nil where the block
	// has nothing but an empty data line, and nil where it has none.
	Data []byte
	// Retry is the reconnection time the block sets, at most maxEventRetry;
	// zero where it sets none or none to wait.
	Retry time.Duration
}

// eventReader parses text/event-stream as section 9.2.6 of the HTML standard
// says: lines end with LF, CR or CR LF, a byte order mark at the start and
// comments are skipped, a block without a final empty line is dropped. It
// differs in two things. A block with an id or a retry field and without data
// is returned, with nil Data, because MCP primes a stream with such blocks
// (2025-11-25, Transports, "Resumability and Redelivery"). And bytes that are
// not UTF-8 are passed on as they are, for the JSON check to refuse.
//
// It is for one goroutine.
type eventReader struct {
	scan   lineScanner
	max    int
	memory *arena.Arena // for the data of events; nil for memory of its own
	begun  bool         // the first line was read
	// skipping is set within an event that is too large and was reported; the
	// rest of it is thrown away as it comes.
	skipping bool
	err      error
}

// skipLine is how much of a line of an event that is too large is held: the
// name of its field and the head of its data.
const skipLine = answerHead + 50

// newEventReader returns a reader of blocks whose lines, comments left out and
// each counted with one byte for its end, sum up to at most maxEvent bytes.
// With a maxEvent of zero or less every block is too large.
func newEventReader(src io.Reader, maxEvent int) *eventReader {
	r := &eventReader{max: maxEvent}
	r.scan = newLineScanner(src, 0, true, r.isComment)
	return r
}

// next returns the next block that has data, an id or a retry field; its Data
// belongs to the caller. The error is io.EOF at the end of the stream, or what
// reading it returned, and stays; or errEventTooLarge, which comes as soon as
// an event is known to be that, with the head of its data, at least answerHead
// bytes of it if it begins with so much. The event after it is returned by the
// next call.
func (r *eventReader) next() (sseEvent, error) {
	if r.err != nil {
		return sseEvent{}, r.err
	}
	event, err := r.block()
	if !errors.Is(err, errEventTooLarge) {
		r.err = err
	}
	return event, err
}

// release gives back what the reader holds. It must not be used after that; the events that
// it has returned stay.
func (r *eventReader) release() { r.scan.release() }

// block reads lines up to the empty one that ends a block worth returning.
func (r *eventReader) block() (sseEvent, error) {
	var (
		event    sseEvent
		hasRetry bool
		size     int // of the lines so far; beyond max only the head of data is wanted
	)
	for {
		// What the block may still hold, or what tells more of one too large.
		r.scan.max = max(r.max-size-1, skipLine)
		if r.skipping {
			r.scan.max = skipLine
		}
		fate, err := r.scan.next()
		if err != nil {
			r.memory.Drop(event.Data)
			return sseEvent{}, err
		}
		line := r.scan.head()
		at := r.markLength(line)
		r.begun = true
		empty := fate == lineWhole && r.scan.size == at
		switch {
		case r.skipping:
			r.skipping = !empty
			continue
		case fate != lineWhole && fate != lineTooLong:
			continue // a comment, or the half line before the end
		case empty && size > r.max:
			return event, errEventTooLarge // it has no data
		case fate == lineTooLong || !empty && line[at] != ':' && size+r.scan.size+1 > r.max:
			size = r.max + 1
			whole := event.Data
			event.Data = dataHead(whole, line, at)
			r.memory.Drop(whole)
			if event.Data == nil {
				continue
			}
			r.skipping = true
			return event, errEventTooLarge
		case empty:
			if event.Data == nil && !event.HasID && !hasRetry {
				event, size = sseEvent{}, 0
				continue
			}
			if event.Event == "" {
				event.Event = "message"
			}
			return event, nil
		case line[at] == ':':
			continue
		}
		size += r.scan.size + 1

		name, valueAt := cutField(line, at)
		switch string(name) {
		case "data":
			event.Data = r.joined(event.Data, valueAt)
		case "event":
			event.Event = eventType(r.value(valueAt))
		case "id":
			if id := r.value(valueAt); bytes.IndexByte(id, 0) < 0 {
				event.ID, event.HasID = string(id), true
			}
		case "retry":
			if wait, ok := parseRetry(r.value(valueAt)); ok {
				event.Retry, hasRetry = wait, true
			}
		}
	}
}

// joined returns the data of an event with that of the current line, from the byte at on.
func (r *eventReader) joined(data []byte, at int) []byte {
	n := r.scan.size - at
	if data == nil {
		return r.scan.appendTo(r.memory.Take(n)[:0], at)
	}
	if room := len(data) + 1 + n; room > cap(data) {
		grown := append(make([]byte, 0, 2*room), data...)
		r.memory.Drop(data)
		data = grown
	}
	return r.scan.appendTo(append(data, '\n'), at)
}

// dataHead returns the head of an event's data: data is what was read of it,
// and line the beginning of the next line, whose field begins at the byte at.
// It is nil where neither has any.
func dataHead(data, line []byte, at int) []byte {
	data = data[:min(len(data), answerHead)]
	name, valueAt := cutField(line, at)
	if string(name) != "data" {
		return bytes.Clone(data)
	}
	value := line[valueAt:]
	value = value[:min(len(value), answerHead)]
	if data == nil {
		return append([]byte{}, value...)
	}
	return slices.Concat(data, []byte{'\n'}, value) // not the array that all of it is in
}

// value returns the current line from the byte at on, valid until the next one.
func (r *eventReader) value(at int) []byte {
	if head := r.scan.head(); len(head) == r.scan.size {
		return head[at:]
	}
	return r.scan.from(at)
}

// isComment reports whether the line that begins with head is a comment.
func (r *eventReader) isComment(head []byte) bool {
	head = head[r.markLength(head):]
	return len(head) > 0 && head[0] == ':'
}

// markLength returns the length of the byte order mark that the stream begins
// with, and 0 on every line but the first.
func (r *eventReader) markLength(line []byte) int {
	if !r.begun && bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
		return 3
	}
	return 0
}

// cutField splits a line, of which head is at least the first few bytes, after
// its first at bytes: it returns the field's name and where its value begins. A
// name that is not within head is none that is known.
func cutField(head []byte, at int) (name []byte, valueAt int) {
	colon := bytes.IndexByte(head[at:], ':')
	if colon < 0 {
		return head[at:], len(head)
	}
	valueAt = at + colon + 1
	if valueAt < len(head) && head[valueAt] == ' ' {
		valueAt++
	}
	return head[at : at+colon], valueAt
}

// eventType returns name as a string, without a copy for those MCP uses.
func eventType(name []byte) string {
	switch string(name) {
	case "message":
		return "message"
	case "endpoint":
		return "endpoint"
	}
	return string(name)
}

// parseRetry returns the reconnection time of a retry field, whose value must
// be digits only.
func parseRetry(value []byte) (time.Duration, bool) {
	var wait time.Duration
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		wait = min(wait*10+time.Duration(c-'0')*time.Millisecond, maxEventRetry)
	}
	return wait, len(value) > 0
}
