package audit

import "time"

// File is what a log needs of its file.
type File = file

// Limits of the buffer, in bytes.
const (
	FlushAt    = flushAt
	KeptBuffer = keptBuffer
	MaxBuffer  = maxBuffer
	MaxString  = maxString
)

// TestKey signs the chains of tests.
var TestKey = Key{ID: "test", Secret: make([]byte, 32)}

// OnFile returns a log that writes to f.
func OnFile(f File, o Options) *Log {
	o.Key = TestKey
	l := newLog("test.jsonl", o)
	l.file = f
	return l
}

// AppendEntry appends e as one line of JSON.
func AppendEntry(b []byte, e *Entry) []byte { return appendEntry(b, e) }

// Flush writes what is buffered.
func Flush(l *Log) { l.flush(false) }

// Held returns how many bytes the buffers have room for.
func Held(l *Log) int { return cap(l.buf) + cap(l.pending) + cap(l.sealed) }

// Prune removes what is too old at a time.
func Prune(l *Log, now time.Time) { l.pruneNow(now) }

// PutAside writes what is buffered and puts the file aside.
func PutAside(l *Log) error {
	l.out.Lock()
	defer l.release()
	l.flushTo(false)
	return l.rotate(l.file, time.Now())
}
