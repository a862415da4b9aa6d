package cluster

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Events are passed on whole, in whatever parts they come, so that another can follow.
func TestEvents(t *testing.T) {
	const (
		progress = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"id\":7}}\n\n"
		question = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n"
		answer   = "event: message\nid: 4\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
		fault    = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{}}\r\n\r\n"
		another  = "data: {\"jsonrpc\":\"2.0\",\"id\":70,\"result\":{}}\n\n"
	)
	large := "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"x\":\"" + strings.Repeat("y", 2*maxHeld) + "\"}}\n\n"
	for name, tt := range map[string]struct {
		id       mcp.ID
		came     string
		passed   string
		begun    bool
		answered bool
	}{
		"nothing":                       {"7", "", "", false, false},
		"whole events":                  {"7", progress + question + another, progress + question + another, false, false},
		"a part of an event":            {"7", progress + answer[:len(answer)-1], progress, false, false},
		"the answer":                    {"7", progress + answer, progress + answer, false, true},
		"an error":                      {"7", fault, fault, false, true},
		"the answer of no request":      {"", answer, answer, false, false},
		"a large answer":                {"7", large, large, false, true},
		"the most of a large answer":    {"7", large[:len(large)-3], large[:len(large)-3], true, false},
		"a comment, and then a part":    {"7", ": ping\n\ndata:", ": ping\n\n", false, false},
		"a stream that begins empty":    {"7", "\n\n" + progress, "\n\n" + progress, false, false},
		"an event of carriage returns":  {"7", "data: x\r\n\r\ndata", "data: x\r\n\r\n", false, false},
		"the id in another event's end": {"7", "data: x\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}", "", false, false},
	} {
		for _, size := range []int{1, 2, 7, 1000, len(tt.came) + 1} {
			if size == 1 && len(tt.came) > maxHeld || size < 1 {
				continue
			}
			var got bytes.Buffer
			e := newEvents(&got, tt.id)
			for rest := tt.came; rest != ""; {
				part := rest[:min(size, len(rest))]
				if n, err := e.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatalf("%s: %d, %v", name, n, err)
				}
				rest = rest[len(part):]
			}
			passed := got.String()
			if tt.begun { // how much is held depends on the parts
				if !strings.HasPrefix(tt.passed, passed) || len(passed)+maxHeld < len(tt.passed) {
					t.Errorf("%s in parts of %d: %d bytes are passed on of %d", name, size, len(passed), len(tt.passed))
				}
			} else if passed != tt.passed {
				t.Errorf("%s in parts of %d: %.200q, want %.200q", name, size, passed, tt.passed)
			}
			if e.begun != tt.begun || e.answered != tt.answered {
				t.Errorf("%s in parts of %d: begun %v, answered %v", name, size, e.begun, e.answered)
			}
		}
	}
}

// FuzzEvents holds that nothing is lost, changed or held back without a bound.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n\ndata"), uint8(3))
	f.Add([]byte("\r\n\r\n\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, came []byte, size uint8) {
		var got bytes.Buffer
		e := newEvents(&got, "1")
		for rest := came; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			_, _ = e.Write(rest[:n]) // to memory
			rest = rest[n:]
		}
		if all := got.String() + string(e.held); all != string(came) || len(e.held) > maxHeld {
			t.Errorf("%q of %q, %d bytes held", all, came, len(e.held))
		}
		if !e.begun && got.Len() > 0 && !bytes.HasSuffix(got.Bytes(), []byte("\n")) {
			t.Errorf("%q does not end an event", got.String())
		}
		if e.answered && !strings.Contains(got.String(), fmt.Sprintf(`"id":%d,`, 1)) {
			t.Errorf("no answer in %q", got.String())
		}
	})
}
