package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

const (
	initializeResult = `{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"old"},"instructions":"hi"}`
	discovered       = `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"instructions":"hi"}`
)

// shake runs the handshake over a shared channel beside the test.
func shake(ctx context.Context, conn *Conn, known mcp.Era) <-chan error {
	c := make(chan error, 1)
	go func() { c <- conn.handshake(ctx, known) }()
	return c
}

// Some legacy servers ignore what they do not know: after three seconds the
// old handshake starts beside the probe.
func TestHandshakeSilentProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.EraUnknown)
		defer done()
		began := time.Now()
		ended := shake(t.Context(), conn, mcp.EraUnknown)
		probe := l.nextRequest(mcp.MethodDiscover)
		id := l.nextRequest(mcp.MethodInitialize)
		if took := time.Since(began); took != probeTime {
			t.Errorf("initialize after %v, want %v", took, probeTime)
		}
		l.say(jsonAnswer(id, initializeResult))
		l.expect(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if err := <-ended; err != nil || conn.era != mcp.Legacy || conn.version != mcp.V20250618 || conn.instructions != "hi" {
			t.Fatalf("handshake = %v, era %v, version %s", err, conn.era, conn.version)
		}
		// The answer to the probe comes late, as an error or as a success.
		l.say(jsonFault(probe, -32601, "Method not found"))
		l.say(jsonAnswer(probe, discovered))
		synctest.Wait()
		l.quiet()
		if conn.era != mcp.Legacy {
			t.Errorf("era = %v after a late answer", conn.era)
		}
	})
}

func TestHandshakeRace(t *testing.T) {
	tests := []struct {
		name string
		play func(l *memoryLink) // from the probe on
		want mcp.Era
		err  string
	}{
		{"modern at once", func(l *memoryLink) {
			l.say(jsonAnswer(l.nextRequest(mcp.MethodDiscover), discovered))
		}, mcp.Modern, ""},
		{"legacy errors at once", func(l *memoryLink) {
			l.say(jsonFault(l.nextRequest(mcp.MethodDiscover), -32601, "Method not found"))
			l.say(jsonAnswer(l.nextRequest(mcp.MethodInitialize), initializeResult))
		}, mcp.Legacy, ""},
		{"legacy with an error of its own", func(l *memoryLink) {
			l.say(jsonFault(l.nextRequest(mcp.MethodDiscover), 0, "Received request before initialization was complete"))
			l.say(jsonAnswer(l.nextRequest(mcp.MethodInitialize), initializeResult))
		}, mcp.Legacy, ""},
		{"slow modern, initialize refused first", func(l *memoryLink) {
			probe := l.nextRequest(mcp.MethodDiscover)
			l.say(jsonFault(l.nextRequest(mcp.MethodInitialize), -32601, "Method not found"))
			synctest.Wait()
			l.say(jsonAnswer(probe, discovered))
		}, mcp.Modern, ""},
		{"slow modern, initialize unanswered", func(l *memoryLink) {
			probe := l.nextRequest(mcp.MethodDiscover)
			l.nextRequest(mcp.MethodInitialize)
			l.say(jsonAnswer(probe, discovered))
		}, mcp.Modern, ""},
		{"slow legacy error, then initialize", func(l *memoryLink) {
			probe := l.nextRequest(mcp.MethodDiscover)
			id := l.nextRequest(mcp.MethodInitialize)
			l.say(jsonFault(probe, -32601, "Method not found"))
			synctest.Wait()
			l.say(jsonAnswer(id, initializeResult))
		}, mcp.Legacy, ""},
		{"both refused", func(l *memoryLink) {
			probe := l.nextRequest(mcp.MethodDiscover)
			id := l.nextRequest(mcp.MethodInitialize)
			l.say(jsonFault(probe, -32601, "Method not found"))
			l.say(jsonFault(id, -32603, "out of order"))
		}, 0, "the server refuses to initialize: out of order"},
		{"an invalid answer to the probe", func(l *memoryLink) {
			id := l.nextRequest(mcp.MethodDiscover)
			l.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"a":1,"a":2}}`)
		}, 0, "an invalid answer"},
		{"an unknown revision", func(l *memoryLink) {
			l.say(jsonFault(l.nextRequest(mcp.MethodDiscover), -32601, "Method not found"))
			l.say(jsonAnswer(l.nextRequest(mcp.MethodInitialize), `{"protocolVersion":"2019-01-01","capabilities":{}}`))
		}, 0, `unknown revision "2019-01-01"`},
		{"a legacy answer of a modern revision", func(l *memoryLink) {
			l.say(jsonFault(l.nextRequest(mcp.MethodDiscover), -32601, "Method not found"))
			l.say(jsonAnswer(l.nextRequest(mcp.MethodInitialize), `{"protocolVersion":"2026-07-28","capabilities":{}}`))
		}, 0, `unknown revision "2026-07-28"`},
		{"silence", func(l *memoryLink) {
			l.nextRequest(mcp.MethodDiscover)
			l.nextRequest(mcp.MethodInitialize)
		}, 0, "deadline"},
		{"the channel is lost", func(l *memoryLink) {
			l.nextRequest(mcp.MethodDiscover)
			l.Fail(transport.ErrClosed)
		}, 0, "the connection is closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, l, done := memoryConn(t, Spec{}, mcp.EraUnknown)
				defer done()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				ended := shake(ctx, conn, mcp.EraUnknown)
				tt.play(l)
				err := <-ended
				if tt.err != "" {
					if err == nil || !strings.Contains(err.Error(), tt.err) {
						t.Errorf("handshake = %v, want %q in it", err, tt.err)
					}
					return
				}
				if err != nil || conn.era != tt.want {
					t.Errorf("handshake = %v, era %v, want %v", err, conn.era, tt.want)
				}
				if tt.want == mcp.Legacy {
					l.expect(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				l.quiet()
			})
		})
	}
}

// Messages of a server during the handshake do no harm: a ping is answered, a question
// refused, a notification dropped.
func TestHandshakeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.EraUnknown)
		defer done()
		conn.inbox = func(c *Conn, msg mcp.Message) { t.Errorf("heard %s in era %v", msg.Raw, c.era) }
		ended := shake(t.Context(), conn, mcp.Legacy)
		id := l.nextRequest(mcp.MethodInitialize)
		l.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"starting"}}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		l.say(question("1", mcp.MethodPing))
		l.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		l.say(question("2", mcp.MethodRoots))
		if msg := l.next(); !refusal(msg, "2") {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		l.say(jsonAnswer(id, initializeResult))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		l.expect(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	})
}

// What is declared to a legacy server is what can be relayed on the connection.
func TestHandshakeDeclares(t *testing.T) {
	const full = `{"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{}}`
	tests := []struct {
		name string
		spec Spec
		key  connKey
		want string
	}{
		{"the gateway's own, of one local principal", Spec{Local: "me", Questions: everyQuestion}, connKey{}, full},
		{"a principal's", Spec{Questions: everyQuestion}, connKey{principal: "bob"}, full},
		{"some", Spec{Questions: Questions{Elicitation: true, Roots: true}}, connKey{principal: "bob"}, `{"elicitation":{"form":{},"url":{}},"roots":{}}`},
		{"nothing", Spec{}, connKey{principal: "bob"}, `{}`},
		{"a session's", Spec{Isolation: IsolateSession, Questions: everyQuestion}, connKey{principal: "bob", session: "s"}, full},
		{"shared by several", Spec{Isolation: IsolateShared, Questions: everyQuestion}, connKey{}, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(tt.spec, Options{Logger: quietLog})
			if got := string(s.declares(tt.key)); got != tt.want {
				t.Errorf("declares %s, want %s", got, tt.want)
			}
		})
	}
}

var everyQuestion = Questions{Sampling: true, Elicitation: true, Roots: true}
