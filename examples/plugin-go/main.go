// Command plugin-go is a plugin for toolgate with two tools. One adds up numbers slowly: it
// reports its progress, and stops when nobody waits for it any more. The other one calls the
// first through the gateway, several times at once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/toolgate/toolgate/native/sdk"
)

type numbers struct {
	To    int `json:"to" jsonschema:"the last number, 1 or more"`
	Pause int `json:"pause_ms,omitempty" jsonschema:"milliseconds between two numbers"`
}

type total struct {
	Sum int `json:"sum"`
}

func main() {
	s := sums{slog.New(slog.NewTextHandler(os.Stderr, nil))}
	p := sdk.New("sums", "1.0.0")
	sdk.Add(p, sdk.Tool{Name: "add_up", Description: "Add up the numbers from 1 to another.", ReadOnly: true, Risk: sdk.Low}, s.addUp)
	sdk.Add(p, sdk.Tool{Name: "add_all", Description: "Add up several sums.", ReadOnly: true, Risk: sdk.Low}, addAll)
	p.Serve()
}

// sums is what the tools share.
type sums struct{ log *slog.Logger } // toolgate logs shows it

func (s sums) addUp(ctx context.Context, call *sdk.Call, in numbers) (out total, err error) {
	if in.To < 1 {
		return out, sdk.Problemf("to is %d and must be 1 or more.", in.To)
	}
	s.log.Info("adding up", "to", in.To)
	for n := 1; n <= in.To; n++ {
		select {
		case <-ctx.Done():
			s.log.Info("stopped, as nobody waits for the rest", "at", n)
			return out, ctx.Err()
		case <-time.After(time.Duration(in.Pause) * time.Millisecond):
		}
		out.Sum += n
		call.Progress(float64(n), float64(in.To), "")
	}
	return out, nil
}

type several struct {
	To []int `json:"to" jsonschema:"the last number of each sum"`
}

// addAll calls add_up once for each number. Each is a call of its own, made as the caller of
// this one: the gateway decides on it, charges it and records it.
func addAll(ctx context.Context, call *sdk.Call, in several) (all total, err error) {
	sums, errs := make([]total, len(in.To)), make([]error, len(in.To))
	var wait sync.WaitGroup
	for i, to := range in.To {
		wait.Go(func() {
			got, err := call.CallTool(ctx, "sums__add_up", numbers{To: to})
			switch {
			case err != nil:
				errs[i] = err // a refusal is told to whoever called add_all
			case got.IsError:
				errs[i] = sdk.Problemf("add_up says: %s", got.Text)
			default:
				errs[i] = json.Unmarshal(got.Structured, &sums[i])
			}
		})
	}
	wait.Wait()
	for _, s := range sums {
		all.Sum += s.Sum
	}
	return all, errors.Join(errs...)
}
