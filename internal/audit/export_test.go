package audit

// File is what a log needs of its file.
type File = file

// Limits of the buffer, in bytes.
const (
	FlushAt   = flushAt
	MaxBuffer = maxBuffer
	MaxString = maxString
)

// OnFile returns a log that writes to f.
func OnFile(f File, o Options) *Log {
	l := newLog("test.jsonl", o)
	l.file = f
	return l
}

// AppendEntry appends e as one line of JSON.
func AppendEntry(b []byte, e *Entry) []byte { return appendEntry(b, e) }
