package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/arena"
)

// readEvents reads src to its end. An event that is too large is given with
// the type "too large", its head and nothing else.
func readEvents(t *testing.T, r *eventReader) ([]sseEvent, error) {
	t.Helper()
	var all []sseEvent
	for {
		event, err := r.next()
		if errors.Is(err, errEventTooLarge) {
			if len(event.Data) > 2*answerHead+1 || cap(event.Data) > 3*answerHead {
				t.Errorf("a head of %d bytes in %d", len(event.Data), cap(event.Data))
			}
			all = append(all, sseEvent{Event: tooLarge, Data: event.Data})
			continue
		}
		if err != nil {
			if _, again := r.next(); !errors.Is(again, err) {
				t.Errorf("after %v next returned %v", err, again)
			}
			return all, err
		}
		all = append(all, event)
	}
}

const tooLarge = "too large"

// wholeData compares data at once, and nil with nil only.
var wholeData = cmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })

func dataEvent(data string) sseEvent { return sseEvent{Event: "message", Data: []byte(data)} }

func TestEventReader(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	tests := []struct {
		name, input string
		want        []sseEvent
	}{
		{"nothing", "", nil},
		{"one", "data: hello\n\n", []sseEvent{dataEvent("hello")}},
		{"no space after the colon", "data:hello\n\n", []sseEvent{dataEvent("hello")}},
		{"only one space goes", "data:  hello \n\n", []sseEvent{dataEvent(" hello ")}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []sseEvent{dataEvent("a\nb"), dataEvent("c")}},
		{"CR LF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []sseEvent{dataEvent("a\nb"), dataEvent("c")}},
		{"mixed ends", "data: a\rdata: b\ndata: c\r\n\ndata: d\n\rdata: e\r\n\r", []sseEvent{dataEvent("a\nb\nc"), dataEvent("d"), dataEvent("e")}},
		{"LF CR is two ends", "data: a\n\rdata: b\n\r", []sseEvent{dataEvent("a"), dataEvent("b")}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []sseEvent{dataEvent("a")}},
		{"byte order mark and comment", "\xef\xbb\xbf: hi\ndata: a\n\n", []sseEvent{dataEvent("a")}},
		{"byte order mark alone", "\xef\xbb\xbf\n\xef\xbb\xbfdata: a\n\ndata: b\n\n", []sseEvent{dataEvent("b")}},
		{"two byte order marks", "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", nil},
		{"comments", ": a\n:\ndata: x\n:b\n\n: c\n\n", []sseEvent{dataEvent("x")}},
		{"long comment", ":" + long + "\n\ndata: x\n\n", []sseEvent{dataEvent("x")}},
		{"several data lines", "data: a\ndata\ndata:\ndata: b\n\n", []sseEvent{dataEvent("a\n\n\nb")}},
		{"empty data", "data\n\ndata:\n\n", []sseEvent{dataEvent(""), dataEvent("")}},
		{"two empty data lines", "data\ndata\n\n", []sseEvent{dataEvent("\n")}},
		{"event types", "event: endpoint\ndata: /m\n\nevent: x y\ndata: 1\n\ndata: 2\n\n", []sseEvent{
			{Event: "endpoint", Data: []byte("/m")}, {Event: "x y", Data: []byte("1")}, dataEvent("2"),
		}},
		{"the last type counts, an empty one is none", "event: a\nevent:\ndata: 1\n\n", []sseEvent{dataEvent("1")}},
		{"a type without data is dropped", "event: a\n\ndata: 1\n\n", []sseEvent{dataEvent("1")}},
		{"id", "id: 7\ndata: a\n\ndata: b\n\n", []sseEvent{
			{ID: "7", HasID: true, Event: "message", Data: []byte("a")}, dataEvent("b"),
		}},
		{"empty id", "id\ndata: a\n\n", []sseEvent{{HasID: true, Event: "message", Data: []byte("a")}}},
		{"id with NUL", "id: 1\nid: a\x00b\ndata: a\n\n", []sseEvent{{ID: "1", HasID: true, Event: "message", Data: []byte("a")}}},
		{"priming", "id: 7\ndata:\n\n", []sseEvent{{ID: "7", HasID: true, Event: "message", Data: []byte{}}}},
		{"priming without data", "id: 7\nretry: 500\n\n", []sseEvent{{ID: "7", HasID: true, Event: "message", Retry: 500 * time.Millisecond}}},
		{"retry", "retry: 1500\n\nretry:0\n\nretry: 00010\ndata: x\n\n", []sseEvent{
			{Event: "message", Retry: 1500 * time.Millisecond},
			{Event: "message"},
			{Event: "message", Retry: 10 * time.Millisecond, Data: []byte("x")},
		}},
		{"not a retry", "retry\n\nretry: -1\n\nretry: 1.5\n\nretry:  1\n\nretry: 1 \n\nretry: ١\n\nretry: 1e3\n\n", nil},
		{"endless retry", "retry: 99999999999999999999999999\n\n", []sseEvent{{Event: "message", Retry: maxEventRetry}}},
		{"unknown fields", "Data: a\n data: b\ndata : c\nfoo: bar\nfoo\ndatax: d\ndata: e\n\n", []sseEvent{dataEvent("e")}},
		{"unknown field alone", "foo: bar\n\n\n\ndata: x\n\n", []sseEvent{dataEvent("x")}},
		{"half event", "data: a\n\ndata: b\nid: 1\n", []sseEvent{dataEvent("a")}},
		{"half line", "data: a\n\ndata: b", []sseEvent{dataEvent("a")}},
		{"half comment", "data: a\n\n: b", []sseEvent{dataEvent("a")}},
		{"not UTF-8", "data: \xff\x00\xfe\n\n", []sseEvent{dataEvent("\xff\x00\xfe")}},
		{"long data", "data: " + long + "\ndata: y\r\n\r\ndata:" + long + "\n\n", []sseEvent{dataEvent(long + "\ny"), dataEvent(long)}},
		{"long id and type", "id: " + long + "\nevent:" + long + "\n\n", []sseEvent{{ID: long, HasID: true, Event: long}}},
		{"long unknown field", long + "\ndata: x\n\n", []sseEvent{dataEvent("x")}},
		{
			"json", "event: message\nid: s_1\ndata: {\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"result\":{}}\n\n",
			[]sseEvent{{ID: "s_1", HasID: true, Event: "message", Data: []byte(`{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`)}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"plain":           func(r io.Reader) io.Reader { return r },
				"byte by byte":    iotest.OneByteReader,
				"error with data": iotest.DataErrReader,
			} {
				got, err := readEvents(t, newEventReader(wrap(strings.NewReader(tt.input)), 1<<20))
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: error %v, want EOF", name, err)
				}
				if diff := cmp.Diff(tt.want, got, wholeData); diff != "" {
					t.Errorf("%s (-want +got):\n%.2000s", name, diff)
				}
			}
		})
	}
}

// TestEventReaderDoesNotWait checks that an event is returned as soon as its
// empty line is there, whatever ends that line.
func TestEventReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		wait := errors.New("read on")
		r := newEventReader(io.MultiReader(strings.NewReader("data: a"+end+end), iotest.ErrReader(wait)), 100)
		got, err := r.next()
		if err != nil || string(got.Data) != "a" {
			t.Errorf("lines that end with %q: next = %q, %v", end, got.Data, err)
		}
		if _, err := r.next(); !errors.Is(err, wait) {
			t.Errorf("lines that end with %q: then next = %v", end, err)
		}
	}
}

func TestEventReaderLimit(t *testing.T) {
	const limit = 1000
	x := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name, input string
		want        string // a digit for an event with so much data, a head in brackets for one too large
	}{
		{"as large as may be", "data:" + x(994) + "\n\ndata:" + x(994) + "\r\n\r\n", "994 994"},
		{"one byte more", "data: a\n\ndata:" + x(995) + "\n\n", "1 <200>"},
		{"and then others", "data: a\n\ndata:" + x(995) + "\n\ndata: b\n\n" + "data:" + x(5000) + "\r\ndata: c\r\n\r\ndata: d\n\n", "1 <200> 1 <200> 1"},
		{"without an end", "data:" + x(995), "<200>"},
		{"sum of lines", strings.Repeat("data: 45678\n", 84) + "\ndata: a\n\n", "<206> 1"},
		{"sum within", strings.Repeat("data: 45678\n", 83) + "\n", "497"},
		{"empty lines of data", strings.Repeat("data\n", 201), "<200>"},
		{"unknown fields", strings.Repeat("foo\n", 300) + "\ndata: a\n\n", "<0> 1"},
		{"unknown fields without an end", strings.Repeat("foo\n", 300), ""},
		{"data behind unknown fields", strings.Repeat("foo\n", 300) + "data: head\ndata: more\nid: 7\n\ndata: a\n\n", "<4> 1"},
		{"id", "id:" + x(2000) + "\ndata: abc\n: c\n\ndata: a\n\n", "<3> 1"},
		{"comments do not count", ":" + x(100_000) + "\ndata: a\n" + strings.Repeat(": x\n", 1000) + "\n:" + x(2000), "1"},
		{"each block for itself", strings.Repeat("foo: "+x(900)+"\n\n", 3) + "data: a\n\n", "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
				got, err := readEvents(t, newEventReader(wrap(strings.NewReader(tt.input)), limit))
				var all []string
				for _, ev := range got {
					text := fmt.Sprint(len(ev.Data))
					if ev.Event == tooLarge {
						text = "<" + text + ">"
					}
					all = append(all, text)
				}
				if got := strings.Join(all, " "); got != tt.want || !errors.Is(err, io.EOF) {
					t.Errorf("events %s and %v, want %s", got, err, tt.want)
				}
			}
		})
	}
	if _, err := newEventReader(strings.NewReader("data: a\n\n"), 0).next(); !errors.Is(err, errEventTooLarge) {
		t.Errorf("without a limit: %v", err)
	}
}

// An event that is too large is told at once, not at its end, and costs little
// however long it is.
func TestEventReaderSkips(t *testing.T) {
	const limit = 1 << 20
	head := `{"jsonrpc":"2.0","id":7,"result":{"a":"`
	wait := errors.New("read on")
	r := newEventReader(io.MultiReader(
		strings.NewReader("id: 5\ndata: "+head), io.LimitReader(&loopReader{data: bytes.Repeat([]byte("x"), 1<<20)}, 2<<20), iotest.ErrReader(wait),
	), limit)
	ev, err := r.next()
	if !errors.Is(err, errEventTooLarge) || !bytes.HasPrefix(ev.Data, []byte(head)) || ev.ID != "5" || answerIn(ev.Data) != "7" {
		t.Errorf("next = %.80q, %v", ev.Data, err)
	}
	if _, err := r.next(); !errors.Is(err, wait) {
		t.Errorf("then next = %v", err)
	}

	r = newEventReader(io.MultiReader(
		strings.NewReader("data: "+head), io.LimitReader(&loopReader{data: append(make([]byte, 1<<20), '\n')}, 128<<20), strings.NewReader("\n\ndata: a\n\n"),
	), limit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = r.next()
	ev, then := r.next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errEventTooLarge) || string(ev.Data) != "a" || then != nil {
		t.Errorf("next = %v, then %q, %v", err, ev.Data, then)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 3*limit {
		t.Errorf("an event of 128 MB took %d bytes", n)
	}
}

// referenceEvents follows the steps of the HTML standard word by word on a
// whole stream, with the additions that eventReader documents. The events are
// those of readEvents, but that one too large has all its data.
func referenceEvents(input string, limit int) ([]sseEvent, error) {
	mark := len(input) - len(strings.TrimPrefix(input, "\xef\xbb\xbf")) // counts with the first line
	input = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(input[mark:])
	var (
		all      []sseEvent
		event    sseEvent
		data     strings.Builder
		hasData  bool
		hasRetry bool
		size     int
	)
	for ; ; mark = 0 {
		line, rest, whole := strings.Cut(input, "\n")
		large := size > limit
		// Of a half line only so much counts as makes it too long by itself.
		if !strings.HasPrefix(line, ":") && line != "" && (whole || mark+len(line) > max(limit-size-1, skipLine)) {
			size += mark + len(line) + 1
			large = size > limit
		}
		if !whole {
			if strings.HasPrefix(line, "data:") && mark+len(line) > skipLine && large {
				hasData = true
				data.WriteString(strings.TrimPrefix(line[5:], " ") + "\n")
			}
			if large && hasData {
				all = append(all, sseEvent{Event: tooLarge, Data: []byte(data.String())})
			}
			return all, io.EOF
		}
		input = rest
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && large:
			last := sseEvent{Event: tooLarge}
			if hasData {
				last.Data = []byte(data.String())
			}
			all = append(all, last)
			event, hasData, hasRetry, size = sseEvent{}, false, false, 0
			data.Reset()
		case line == "":
			if hasData || event.HasID || hasRetry {
				if hasData {
					event.Data = []byte(strings.TrimSuffix(data.String(), "\n"))
				}
				if event.Event == "" {
					event.Event = "message"
				}
				all = append(all, event)
			}
			event, hasData, hasRetry, size = sseEvent{}, false, false, 0
			data.Reset()
		case field == "data" && line[0] != ':':
			data.WriteString(value + "\n")
			hasData = true
		case field == "event":
			event.Event = value
		case field == "id" && !strings.Contains(value, "\x00"):
			event.ID, event.HasID = value, true
		case field == "retry" && value != "" && strings.Trim(value, "0123456789") == "":
			n, _ := new(big.Int).SetString(value, 10)
			hasRetry, event.Retry = true, maxEventRetry
			if n.Cmp(big.NewInt(maxEventRetry.Milliseconds())) < 0 {
				event.Retry = time.Duration(n.Int64()) * time.Millisecond
			}
		}
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add("data: a\r\ndata: b\r\rid: 7\ndata:\n\n", uint16(1000), uint8(0), uint8(0))
	f.Add("\xef\xbb\xbf: c\nevent: endpoint\ndata: /x\n\n", uint16(100), uint8(2), uint8(1))
	f.Add("retry: 10\n\nid: a\x00\ndata\n\ndata:x", uint16(50), uint8(1), uint8(2))
	f.Add("data: "+strings.Repeat("x", 200)+"\n\n", uint16(150), uint8(30), uint8(9))
	f.Add("\r\r\r\n\n\rdata\r\r", uint16(40), uint8(3), uint8(3))
	f.Fuzz(func(t *testing.T, input string, limit uint16, step, chunk uint8) {
		size := int(limit) + 16
		want, wantErr := referenceEvents(input, size)
		r := newEventReader(&stepReader{rest: input, step: int(step) + 1}, size)
		// Small buffers, but large enough for a byte order mark and a name.
		r.scan.rest, r.scan.chunk = 16+int(chunk)/2, 16+int(chunk)
		got, err := readEvents(t, r)
		if !errors.Is(err, wantErr) {
			t.Errorf("error %v, want %v", err, wantErr)
		}
		for i := range min(len(want), len(got)) {
			if want[i].Event == tooLarge && got[i].Data != nil {
				want[i].Data = want[i].Data[:min(len(want[i].Data), len(got[i].Data))]
			}
		}
		if diff := cmp.Diff(want, got, wholeData); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func BenchmarkEventReader(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 100}, {"1MB", 1 << 20}} {
		event := []byte("event: message\nid: 17\ndata: " + strings.Repeat("x", size.bytes) + "\n\n")
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			r := newEventReader(&loopReader{data: event}, 32<<20)
			for b.Loop() {
				got, err := r.next()
				if err != nil || len(got.Data) != size.bytes {
					b.Fatalf("next = %d bytes, %v", len(got.Data), err)
				}
			}
		})
	}
	// Short lines that end with CR, in a stream without any LF.
	b.Run("CR", func(b *testing.B) {
		event := bytes.Repeat([]byte("data\r\r"), 100)
		b.SetBytes(6)
		r := newEventReader(&loopReader{data: event}, 1000)
		for b.Loop() {
			if _, err := r.next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Memory that was lent for an event is given back unless the event is returned whole, so that a
// server cannot have it all held.
func TestEventMemory(t *testing.T) {
	long := strings.Repeat("x", 20<<10)
	for _, tt := range []struct {
		name, stream string
		max          int
		want         int // bytes of the data of the first event; -1 for an error
		lent         bool
	}{
		{"one line", "data: " + long + "\n\n", 1 << 20, 20 << 10, true},
		{"a short line", "data: x\n\n", 1 << 20, 1, false},
		{"two lines", "data: " + long + "\ndata: y\n\n", 1 << 20, 20<<10 + 2, true},
		{"lines that outgrow it", "data: " + long + strings.Repeat("\ndata: "+long, 4) + "\n\n", 1 << 20, 5*(20<<10) + 4, false},
		{"a long id", "id: " + long + "\ndata: x\n\n", 1 << 20, 1, false},
		{"too large", "data: " + long + "\ndata: " + long + "\n\n", 30 << 10, -1, false},
		{"broken off", "data: " + long + "\n", 1 << 20, -1, false},
	} {
		var memory arena.Arena
		r := newEventReader(strings.NewReader(tt.stream), tt.max)
		r.memory = &memory
		ev, err := r.next()
		if (err != nil) != (tt.want < 0) || err == nil && len(ev.Data) != tt.want {
			t.Errorf("%s: %d bytes, %v", tt.name, len(ev.Data), err)
		}
		if lent := memory.Extend(ev.Data, 0, 0) != nil; lent != tt.lent || !lent && memory.Lends() {
			t.Errorf("%s: lent is %v, and the arena lends is %v", tt.name, lent, memory.Lends())
		}
		memory.Free()
	}
}
