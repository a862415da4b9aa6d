package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// callerKey is the key of the caller in a context.
type callerKey struct{}

// callersOwn is a credential that says whose the context of a request is, in one of two headers,
// and renews it once where the server wants that.
type callersOwn struct{ noCredential }

func (callersOwn) Headers(ctx context.Context, _ string) (http.Header, error) {
	who, _ := ctx.Value(callerKey{}).(string)
	return http.Header{"X-Caller": {who}, "X-Odd-" + who[len(who)-1:]: {"yes"}}, nil
}

func (callersOwn) Refused(_ context.Context, _ string, sent http.Header, _ int, _ http.Header) (bool, error) {
	return len(sent["X-Caller"]) == 1, nil
}

// Requests of several callers use the memory of earlier ones: those that were answered, refused,
// made again, answered by events, cut or cancelled. Each is sent and answered as its own.
func TestRequestsWithUsedMemoryAreSeparate(t *testing.T) {
	const workers, each = 8, 60
	var refused sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		msg, err := mcp.Parse(raw, mcp.Limits{})
		who, _ := msg.ParamString("who")
		odd := 0
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Odd-") {
				odd++
			}
		}
		if want := msg.Param("fields"); err != nil || r.Header.Get("X-Caller") != who || odd != 1 || string(want) != fmt.Sprint(len(r.Header["Mcp-Param-A"])) ||
			strings.Join(r.Header["Mcp-Param-A"], "") != strings.Repeat(who, len(r.Header["Mcp-Param-A"])) {
			t.Errorf("%s came with %v", raw, r.Header)
		}
		answer := mcp.AppendResult(nil, msg.ID, fmt.Appendf(nil, `{"who":%q}`, who))
		switch kind, _ := msg.ParamString("kind"); kind {
		case "events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", answer)
		case "refused":
			w.WriteHeader(http.StatusTeapot)
		case "again":
			if _, before := refused.LoadOrStore(who+string(msg.ID), true); !before {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		case "cut":
			panic(http.ErrAbortHandler)
		case "cancelled":
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		}
	}))
	defer server.Close()
	pool := NewPool(workers)
	defer pool.CloseIdleConnections()
	link, err := dialStreamable(t.Context(), &Options{
		URL: server.URL, Pool: pool, Credential: callersOwn{}, Limits: Limits{Result: 1 << 20, Depth: 20}, Log: slog.New(slog.DiscardHandler),
	}, func(mcp.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close(t.Context())
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range each {
				who := fmt.Sprintf("caller %d", worker)
				kind := []string{"plain", "plain", "events", "plain", "refused", "again", "cut", "plain", "cancelled"}[(i+worker)%9]
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callerKey{}, who))
				id := mcp.NumberID(int64(1000*worker + i))
				fields := make([]Field, i%7)
				for j := range fields {
					fields[j] = Field{"Mcp-Param-A", who}
				}
				raw := mcp.AppendRequest(nil, id, "m", fmt.Appendf(nil, `{"who":%q,"kind":%q,"fields":%d}`, who, kind, len(fields)))
				if kind == "cancelled" {
					go cancel()
				}
				msg, err := link.RoundTrip(ctx, &Request{ID: id, Raw: raw, Fields: fields})
				cancel()
				failed := kind == "refused" || kind == "cut" || kind == "cancelled"
				if failed != (err != nil) || kind == "cancelled" && !errors.Is(err, context.Canceled) || err == nil && string(msg.Result()) != fmt.Sprintf(`{"who":%q}`, who) {
					t.Errorf("%s: %s, %v", kind, msg.Raw, err)
				}
			}
		})
	}
	all.Wait()
}
