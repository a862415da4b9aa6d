package transport

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// FuzzMux plays a server that answers random requests in a random order, twice,
// wrongly or not at all, with notifications, questions and garbage between:
// every request gets exactly its own answer, or its own error, or nothing.
func FuzzMux(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"))
	f.Add(uint64(2), []byte("\x03\x03\x03\x00\x00\x00\x01\x01\x01"))
	f.Add(uint64(3), []byte("\x05\x04\x03\x02\x01\x00\xff\xfe\x80\x40\x20\x10"))
	f.Add(uint64(4), []byte{})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		const requests = 6
		m := NewMux(slog.New(slog.DiscardHandler), Limits{Result: 32 << 20, Events: 4}, func(mcp.Message) {})
		random := rand.New(rand.NewPCG(seed, 0))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent := make(chan mcp.ID, requests)
		var all sync.WaitGroup
		answered, ended := make([]bool, requests), make([]chan struct{}, requests)
		for i := range requests {
			id := mcp.NumberID(int64(i))
			ended[i] = make(chan struct{})
			all.Go(func() {
				defer close(ended[i])
				req := &Request{ID: id, Askable: i%2 == 0, Arrived: func(msg mcp.Message) {
					if token := msg.Param("progressToken"); token != nil && string(token) != string(id) {
						t.Errorf("request %s got %s", id, msg.Raw)
					}
				}}
				msg, err := m.RoundTrip(ctx, req, func([]byte) error { sent <- id; return nil })
				if err == nil {
					answered[i] = true
					if want := `{"for":` + string(id) + `}`; msg.ID != id || string(msg.Result()) != want {
						t.Errorf("request %s got %s", id, msg.Raw)
					}
				}
			})
		}
		for range requests {
			<-sent
		}
		sound := make([]bool, requests) // an answer came, and nothing that spoils it before
		over := make([]bool, requests)
		for _, b := range script {
			i := random.IntN(requests)
			id := string(mcp.NumberID(int64(i)))
			var line string
			switch b % 8 {
			case 0:
				line = answerTo(mcp.ID(id), `{"for":`+id+`}`)
				sound[i] = sound[i] || !over[i]
				over[i] = true
			case 1:
				line = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + id + `}}`
			case 2:
				line = `{"jsonrpc":"2.0","id":` + id + `,"method":"` + mcp.MethodElicit + `","params":{}}`
			case 3:
				line = answerTo(mcp.ID(`"`+id+`"`), `{"wrong":"type"}`)
			case 4:
				line = `{"jsonrpc":"2.0","id":` + id + `,"result":{"a":1,"a":2}}`
				over[i] = true
			case 5:
				line = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
			case 6:
				line = answerTo(mcp.NumberID(int64(requests+i)), `{}`)
			case 7:
				line = string(script)
			}
			msg, err := mcp.Parse([]byte(line), mcp.Limits{})
			if err != nil {
				if b%8 == 7 && !invalidAnswer(&msg).Absent() {
					continue // the script happens to name an id
				}
				m.DeliverInvalid(msg, err)
				continue
			}
			m.Deliver(msg)
		}
		for i := range requests {
			if sound[i] {
				<-ended[i] // it needs no help
			}
		}
		cancel()
		all.Wait()
		for i := range requests {
			if answered[i] != sound[i] {
				t.Errorf("request %d answered: %v, want %v", i, answered[i], sound[i])
			}
		}
		if len(m.pending) != 0 {
			t.Errorf("%d requests are still pending", len(m.pending))
		}
	})
}

func answerTo(id mcp.ID, result string) string {
	return string(mcp.AppendResult(nil, id, []byte(result)))
}
