package agents

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/anthropic"
)

// silent is a model that answers nothing.
type silent struct{}

func (silent) Infer(ctx context.Context, _ *model.Request, _ func(model.Delta)) (*model.Turn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// refusing is a model that refuses, and takes its time.
type refusing struct{}

func (refusing) Infer(ctx context.Context, _ *model.Request, _ func(model.Delta)) (*model.Turn, error) {
	<-ctx.Done()
	return nil, model.Errorf(model.Refused, "no")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// streams is a client of messages whose endpoint begins a stream and says nothing more.
func streams(t *testing.T, begin string) model.Model {
	t.Helper()
	m, err := anthropic.NewMessages(&model.Endpoint{URL: "http://model.example", HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
		body, stream := io.Pipe()
		go func() { // ends with the request
			_, _ = io.WriteString(stream, begin)
			<-r.Context().Done()
			stream.CloseWithError(r.Context().Err())
		}()
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A turn ends in time, as the fault of its model, with what it has cost so far. One whose run has ended is no fault of it.
func TestBoundedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		bad := func(m model.Model) model.Kind {
			_, err := bounded{m, limit}.Infer(t.Context(), nil, nil)
			e, _ := errors.AsType[*model.Error](err)
			if e == nil {
				t.Fatalf("%v", err)
			}
			return e.Kind
		}
		began := time.Now()
		if kind := bad(silent{}); kind != model.Timeout || time.Since(began) != limit {
			t.Errorf("%s after %v", kind, time.Since(began))
		}
		if kind := bad(refusing{}); kind != model.Refused {
			t.Errorf("%s", kind)
		}
		began = time.Now()
		streaming := streams(t, `data: {"type":"message_start","message":{"usage":{"input_tokens":700,"output_tokens":3}}}`+"\n\n")
		_, err := bounded{streaming, limit}.Infer(t.Context(), &model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}, nil)
		late, ok := errors.AsType[*model.Error](err)
		if want := (model.Usage{Input: 700, Output: 3, Known: true}); !ok || late.Kind != model.Timeout || late.Usage != want || time.Since(began) != limit {
			t.Errorf("%v after %v, %+v", err, time.Since(began), late)
		}
		gone := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := (bounded{silent{}, limit}).Infer(ctx, nil, nil); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	})
}
