package agents

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/native/agents/model"
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

// A turn ends in time, as the fault of its model. One whose run has ended is no fault of it.
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
		gone := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := (bounded{silent{}, limit}).Infer(ctx, nil, nil); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	})
}
