package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newTestState() *state {
	s := newState(mcp.Limits{})
	s.prefix = "us"
	return &s
}

// said sends lines of the client through a state.
func said(t *testing.T, s *state, lines ...string) []string {
	t.Helper()
	var out []string
	for _, line := range lines {
		if got := s.fromClient([]byte(line)); got != nil {
			out = append(out, string(got))
		}
	}
	return out
}

// heard sends lines of the gateway through a state.
func heard(t *testing.T, s *state, lines ...string) []string {
	t.Helper()
	var out []string
	for _, line := range lines {
		got, err := s.toClient([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, texts(got)...)
	}
	return out
}

func texts(lines [][]byte) []string {
	var out []string
	for _, line := range lines {
		out = append(out, string(line))
	}
	return out
}

const (
	helloLine  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`
	helloBack  = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true}}}}`
	ready      = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	lostMaybe  = `{"jsonrpc":"2.0","id":%s,"error":{"code":1001,"message":"The gateway went away before it answered; the request may have run, so check that before you repeat it","data":{"kind":"gateway_lost","code":1001,"phase":"connection","may_have_run":true}}}`
	lostSurely = `{"jsonrpc":"2.0","id":%s,"error":{"code":1001,"message":"The gateway went away before it answered; nothing was run, and the request can be repeated","data":{"kind":"gateway_lost","code":1001,"phase":"connection","may_have_run":false}}}`
)

func call(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"x"}}`, id)
}

func list(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/list"}`, id)
}

func replied(id string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id) }

// With the first gateway everything passes as it is, whatever it is.
func TestRelayIsTransparent(t *testing.T) {
	s := newTestState()
	for _, line := range []string{
		helloLine, ready, call(`"a\u0062"`), `{ "id" : 7,"x":1.0, "jsonrpc":"2.0","method":"ping" }`, "garbage", "{}", "[]", "[1,2]",
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","id":"q","result":{}}]`,
		`{"jsonrpc":"2.0","id":"nobody asked","result":{"n":9007199254740993}}`, `{"jsonrpc":"2.0","id":null,"method":"x"}`,
	} {
		if got := said(t, s, line); !slices.Equal(got, []string{line}) {
			t.Errorf("client: %s became %s", line, got)
		}
		if got := heard(t, s, line); !slices.Equal(got, []string{line}) {
			t.Errorf("gateway: %s became %s", line, got)
		}
	}
}

func TestRelayCatchesUp(t *testing.T) {
	s := newTestState()
	subscribe := func(id int, method, uri string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":%q}}`, id, method, uri)
	}
	level := `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":%q}}`
	for _, step := range [][2]string{
		{helloLine, helloBack},
		{ready, ""},
		{fmt.Sprintf(level, "info"), replied("1")},
		{fmt.Sprintf(level, "debug"), replied("1")},
		{fmt.Sprintf(level, "no such level"), `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`},
		{subscribe(2, "subscribe", "b"), replied("2")},
		{subscribe(3, "subscribe", "a"), replied("3")},
		{subscribe(4, "subscribe", "gone"), replied("4")},
		{subscribe(5, "unsubscribe", "gone"), replied("5")},
	} {
		said(t, s, step[0])
		if step[1] != "" {
			heard(t, s, step[1])
		}
	}
	for generation := 1; generation <= 2; generation++ {
		if out := s.lost(false); out != nil {
			t.Errorf("nothing was in flight: %s", texts(out))
		}
		session, again := s.catchUp()
		want := []string{
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"us-%d-initialize","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`, generation),
			ready,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"us-%d-level","method":"logging/setLevel","params":{"level":"debug"}}`, generation),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"us-%d-subscribe-3","method":"resources/subscribe","params":{"uri":"a"}}`, generation),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"us-%d-subscribe-4","method":"resources/subscribe","params":{"uri":"b"}}`, generation),
		}
		if diff := cmp.Diff(want, texts(session)); diff != "" || again != nil {
			t.Errorf("session (-want +got):\n%s%s", diff, texts(again))
		}
		// The client hears nothing of it but that it should look again.
		got := heard(t, s, strings.Replace(helloBack, `"id":0`, fmt.Sprintf(`"id":"us-%d-initialize"`, generation), 1),
			replied(fmt.Sprintf(`"us-%d-level"`, generation)), replied(fmt.Sprintf(`"us-%d-subscribe-3"`, generation)))
		if diff := cmp.Diff([]string{
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`,
		}, got); diff != "" {
			t.Errorf("the client hears (-want +got):\n%s", diff)
		}
	}
}

func TestRelayRefusesAnotherSession(t *testing.T) {
	for name, answer := range map[string]string{
		"restart this client": `{"jsonrpc":"2.0","id":"us-1-initialize","error":{"code":1005,"message":"Too many sessions"}}`,
		"speaks 2024-11-05":   `{"jsonrpc":"2.0","id":"us-1-initialize","result":{"protocolVersion":"2024-11-05"}}`,
	} {
		s := newTestState()
		said(t, s, helloLine)
		heard(t, s, helloBack)
		s.lost(false)
		s.catchUp()
		var coded *failure.Error
		if _, err := s.toClient([]byte(answer)); !errors.As(err, &coded) || coded.Kind != failure.Unreachable || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRelayInFlight(t *testing.T) {
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`
	tests := []struct {
		name        string
		sent, heard []string
		told, again []string // when the gateway is lost
		last        []string // when it was the last
	}{
		{"a call", []string{call("1")}, nil, []string{fmt.Sprintf(lostMaybe, "1")}, nil, []string{fmt.Sprintf(lostMaybe, "1")}},
		{"an answered call", []string{call("1")}, []string{replied("1")}, nil, nil, nil},
		{"an id that is written in two ways", []string{call(`"a"`)}, []string{replied(`"\u0061"`)}, nil, nil, nil},
		{"a failed call", []string{call("1")}, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`}, nil, nil, nil},
		{"a number is not text", []string{call("1")}, []string{replied(`"1"`)}, []string{fmt.Sprintf(lostMaybe, "1")}, nil, []string{fmt.Sprintf(lostMaybe, "1")}},
		{"a cancelled call", []string{call("1"), fmt.Sprintf(cancelled, "1")}, nil, nil, nil, nil},
		{
			"in the order of the client",
			[]string{list("3"), call("2"), list("1"), call(`"0"`)},
			nil,
			[]string{fmt.Sprintf(lostMaybe, "2"), fmt.Sprintf(lostMaybe, `"0"`)},
			[]string{list("3"), list("1")},
			[]string{fmt.Sprintf(lostSurely, "3"), fmt.Sprintf(lostMaybe, "2"), fmt.Sprintf(lostSurely, "1"), fmt.Sprintf(lostMaybe, `"0"`)},
		},
		{
			"a batch",
			[]string{"[" + call("1") + "," + list("2") + "," + call("3") + "]"},
			[]string{"[" + replied("1") + "]"},
			[]string{fmt.Sprintf(lostMaybe, "2"), fmt.Sprintf(lostMaybe, "3")},
			nil,
			[]string{fmt.Sprintf(lostMaybe, "2"), fmt.Sprintf(lostMaybe, "3")},
		},
		{"the session itself", []string{helloLine, ready}, nil, nil, []string{helloLine, ready}, []string{fmt.Sprintf(lostSurely, "0")}},
		{
			"a subscription, which ends with its client",
			[]string{`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{}}}`},
			nil,
			[]string{fmt.Sprintf(lostSurely, "5")},
			nil, nil,
		},
		{"a notification, and what is none", []string{`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "garbage"}, nil, nil, nil, nil},
	}
	for _, tt := range tests {
		for _, last := range []bool{false, true} {
			s := newTestState()
			said(t, s, tt.sent...)
			heard(t, s, tt.heard...)
			told := texts(s.lost(last))
			want, again := tt.told, tt.again
			if last {
				want, again = tt.last, nil
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("%s, last %v: told (-want +got):\n%s", tt.name, last, diff)
			}
			if last {
				continue
			}
			session, got := s.catchUp()
			if diff := cmp.Diff(again, texts(got)); diff != "" || session != nil {
				t.Errorf("%s: again (-want +got):\n%s%s", tt.name, diff, texts(session))
			}
			if more := s.lost(false); more != nil && len(told) > 0 {
				t.Errorf("%s: told twice: %s", tt.name, texts(more))
			}
		}
	}
}

// A gateway numbers its questions as the last one did. An answer reaches only
// the one that asked.
func TestRelayQuestions(t *testing.T) {
	question := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"roots/list"}`, id)
	}
	answer := func(id string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, id) }
	s := newTestState()
	heard(t, s, question(`"toolgate-1"`), question("2"), question(`"toolgate-3"`))
	if got := said(t, s, answer(`"toolgate-3"`)); !slices.Equal(got, []string{answer(`"toolgate-3"`)}) {
		t.Errorf("the first gateway hears %s", got)
	}
	if diff := cmp.Diff([]string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"toolgate-1","reason":"the gateway that asked is gone"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"the gateway that asked is gone"}}`,
	}, texts(s.lost(false))); diff != "" {
		t.Errorf("the client is told (-want +got):\n%s", diff)
	}
	shown := heard(t, s, question(`"toolgate-1"`), question("2"), question("3"))
	if diff := cmp.Diff([]string{question(`"1:\"toolgate-1\""`), question(`"1:2"`), question(`"1:3"`)}, shown); diff != "" {
		t.Errorf("the client is asked (-want +got):\n%s", diff)
	}
	if got := said(t, s, answer(`"toolgate-1"`), answer("2"), "["+answer(`"toolgate-1"`)+"]"); got != nil {
		t.Errorf("late answers reach the second gateway: %s", got)
	}
	refused := `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no","data":[1.0]}}`
	got := said(t, s, answer(`"1:\"toolgate-1\""`), "["+answer(`"toolgate-1"`)+","+fmt.Sprintf(refused, `"1:2"`)+"]", answer(`"1:2"`))
	if diff := cmp.Diff([]string{answer(`"toolgate-1"`), "[" + fmt.Sprintf(refused, "2") + "]"}, got); diff != "" {
		t.Errorf("the second gateway hears (-want +got):\n%s", diff)
	}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"r"}}`
	if got := heard(t, s, fmt.Sprintf(cancel, "3")); !slices.Equal(got, []string{fmt.Sprintf(cancel, `"1:3"`)}) {
		t.Errorf("a question that is taken back: %s", got)
	}
	if got := said(t, s, answer(`"1:3"`)); got != nil {
		t.Errorf("the answer to it: %s", got)
	}
}

// Whatever happens in whatever order, a request of the client gets exactly one
// answer, unless it was cancelled, and a call is never sent twice.
func TestRelayAnswersOnce(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newTestState()
		answers, sends, calls := map[string]int{}, map[string]int{}, map[string]bool{}
		cancelled := map[string]bool{}
		atGateway := []string{} // ids that the gateway has
		deliver := func(lines ...[]byte) {
			for _, line := range lines {
				if msg, err := mcp.Parse(line, mcp.Limits{}); err == nil && msg.Kind == mcp.KindRequest {
					sends[string(msg.ID)]++
					atGateway = append(atGateway, string(msg.ID))
				}
			}
		}
		hear := func(lines ...[]byte) {
			for _, line := range lines {
				if msg, err := mcp.Parse(line, mcp.Limits{}); err == nil && msg.Kind == mcp.KindResponse {
					answers[string(msg.ID)]++
				}
			}
		}
		next := 0
		for range 200 {
			switch random.IntN(6) {
			case 0, 1:
				next++
				id := fmt.Sprint(next)
				line := call(id)
				if calls[id] = random.IntN(2) == 0; !calls[id] {
					line = list(id)
				}
				if out := s.fromClient([]byte(line)); random.IntN(10) == 0 {
					s.keep([]byte(line)) // it could not be written
				} else {
					deliver(out)
				}
			case 2, 3:
				if len(atGateway) > 0 {
					i := random.IntN(len(atGateway))
					out, err := s.toClient([]byte(replied(atGateway[i])))
					if err != nil {
						t.Fatal(err)
					}
					hear(out...)
					atGateway = slices.Delete(atGateway, i, i+1)
				}
			case 4:
				if len(atGateway) > 0 {
					i := random.IntN(len(atGateway))
					deliver(s.fromClient(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, atGateway[i])))
					cancelled[atGateway[i]] = true
					atGateway = slices.Delete(atGateway, i, i+1)
				}
			case 5:
				if random.IntN(5) == 0 {
					hear(s.lost(false)...)
					atGateway = nil
					_, again := s.catchUp()
					for _, line := range again {
						deliver(s.fromClient(line))
					}
				}
			}
		}
		hear(s.lost(true)...)
		for i := range next {
			id := fmt.Sprint(i + 1)
			if want := 1; answers[id] != want && !(cancelled[id] && answers[id] == 0) {
				t.Errorf("seed %d: request %s has %d answers", seed, id, answers[id])
			}
			if calls[id] && sends[id] > 1 {
				t.Errorf("seed %d: call %s was sent %d times", seed, id, sends[id])
			}
		}
	}
}

func FuzzRelay(f *testing.F) {
	for _, seed := range []string{helloLine + "\n" + helloBack, call("1") + "\n" + replied("1"), "[" + list("1") + "]\n[" + replied("1") + "]", `{"jsonrpc":"2.0","id":"us-1-initialize","result":{}}` + "\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := newTestState()
		for range 3 {
			for i, line := range strings.Split(string(raw), "\n") {
				if i%2 == 0 {
					if got := s.fromClient([]byte(line)); s.generation == 0 && string(got) != line {
						t.Errorf("client: %q became %q", line, got)
					}
					continue
				}
				_, _ = s.toClient([]byte(line))
			}
			s.lost(false)
			session, again := s.catchUp()
			for _, line := range slices.Concat(session, again) {
				if strings.Contains(string(line), "\n") {
					t.Errorf("two lines: %q", line)
				}
			}
		}
	})
}

// end is a relay's client in a test.
type end struct {
	in  *io.PipeWriter
	out *bufio.Reader
}

func (e *end) say(t *testing.T, lines ...string) {
	t.Helper()
	if _, err := io.WriteString(e.in, strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (e *end) hears(t *testing.T, want ...string) {
	t.Helper()
	for _, line := range want {
		if got, err := e.out.ReadString('\n'); err != nil || got != line+"\n" {
			t.Fatalf("%q, %v; want %q", got, err, line)
		}
	}
}

// newRelayed returns a relay with its client, inside a bubble.
func newRelayed(limit int) (*Relay, *end) {
	cin, in := io.Pipe()
	out, cout := io.Pipe()
	return New(cin, cout, limit, 0), &end{in, bufio.NewReader(out)}
}

// served runs serve and returns the gateway's end and the result.
func served(ctx context.Context, r *Relay) (*lineclient.Pipe, *end, chan error) {
	here, there := lineclient.NewPipe()
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, here) }() // ends with the stream or the client
	return there, &end{there.PipeWriter, bufio.NewReader(there.PipeReader)}, done
}

func TestRelayServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := newRelayed(100)
		defer r.Close()
		stream, gateway, done := served(t.Context(), r)
		client.say(t, list("1"), "  ", strings.Repeat("x", 101), call("2"))
		gateway.hears(t, list("1"))
		client.hears(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: a line of more than 100 bytes (limits.body)"}}`)
		gateway.hears(t, call("2"))
		gateway.say(t, replied("1"))
		client.hears(t, replied("1"))
		// It dies in the middle of an answer.
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.WriteString(gateway.in, `{"jsonrpc":"2.0","id":2,"resu`)
			stream.Close()
		})
		client.hears(t, fmt.Sprintf(lostMaybe, "2"))
		wg.Wait()
		if err := <-done; !errors.Is(err, ErrGatewayGone) {
			t.Fatalf("serve: %v", err)
		}
		// What the client says meanwhile is for the next.
		go func() { _, _ = io.WriteString(client.in, list("3")+"\n") }() // read below
		synctest.Wait()
		stream, gateway, done = served(t.Context(), r)
		gateway.hears(t, list("3"))
		client.in.Close()
		if _, err := gateway.out.ReadByte(); err != io.EOF {
			t.Errorf("the gateway does not see the end of input: %v", err)
		}
		gateway.say(t, replied("3"))
		client.hears(t, replied("3"))
		stream.Close()
		if err := <-done; err != nil || !r.over.Load() {
			t.Errorf("serve: %v", err)
		}
	})
}

// A line that was not delivered whole is sent to the next gateway; one that was
// may have run.
func TestRelayWriteFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		taken int // bytes of the line that the gateway reads
		kept  bool
	}{{"nothing", 0, true}, {"a part", 10, true}, {"all but the end", len(call("1")) - 1, true}, {"the message", len(call("1")), false}} {
		synctest.Test(t, func(t *testing.T) {
			r, client := newRelayed(1000)
			defer r.Close()
			stream, _, done := served(t.Context(), r)
			go func() { _, _ = io.WriteString(client.in, call("1")+"\n") }() // read by the relay
			if _, err := io.ReadFull(stream.PipeReader, make([]byte, tt.taken)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			stream.Close()
			if !tt.kept {
				client.hears(t, fmt.Sprintf(lostMaybe, "1"))
			}
			if err := <-done; !errors.Is(err, ErrGatewayGone) {
				t.Fatalf("%s: %v", tt.name, err)
			}
			stream, gateway, done := served(t.Context(), r)
			if tt.kept {
				gateway.hears(t, call("1"))
				gateway.say(t, replied("1"))
				client.hears(t, replied("1"))
			}
			client.in.Close()
			synctest.Wait()
			stream.Close()
			if err := <-done; err != nil {
				t.Errorf("%s: at the end: %v", tt.name, err)
			}
		})
	}
}

func TestRelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The client has ended, and the gateway goes without an answer.
		r, client := newRelayed(1000)
		stream, gateway, done := served(t.Context(), r)
		client.say(t, call("1"))
		gateway.hears(t, call("1"))
		client.in.Close()
		synctest.Wait()
		stream.Close()
		client.hears(t, fmt.Sprintf(lostMaybe, "1"))
		var coded *failure.Error
		if err := <-done; !errors.As(err, &coded) || coded.Kind != failure.Unreachable {
			t.Errorf("unanswered: %v", err)
		}
		r.Close()

		// The command is told to end, also while its client reads nothing.
		r, client = newRelayed(1000)
		ctx, cancel := context.WithCancel(t.Context())
		stream, gateway, done = served(ctx, r)
		gateway.say(t, replied("1"))
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("told to end: %v", err)
		}
		r.Close()
		client.in.Close()
		client.hears(t, replied("1"))
		stream.Close()

		// It makes room: that is a gateway that goes.
		r, client = newRelayed(1000)
		ctx, room := context.WithCancelCause(t.Context())
		_, gateway, done = served(ctx, r)
		client.say(t, call("1"))
		gateway.hears(t, call("1"))
		room(ErrGatewayGone)
		client.hears(t, fmt.Sprintf(lostMaybe, "1"))
		if err := <-done; !errors.Is(err, ErrGatewayGone) {
			t.Errorf("making room: %v", err)
		}
		r.Close()
		client.in.Close()
	})
}

// A gateway that ends every connection at once is not asked for ever.
func TestRelayGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := newRelayed(1000)
		defer client.in.Close()
		defer r.Close()
		for i := range mostBrief + 1 {
			stream, _, done := served(t.Context(), r)
			stream.Close()
			var coded *failure.Error
			if err := <-done; errors.Is(err, ErrGatewayGone) != (i < mostBrief) || i == mostBrief && !errors.As(err, &coded) {
				t.Errorf("stream %d: %v", i, err)
			}
		}
	})
}
