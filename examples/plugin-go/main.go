// Command plugin-go is a plugin for toolgate with one tool, which adds up numbers slowly.
// The tool reports its progress, and stops when nobody waits for it any more.
package main

import (
	"context"
	"log/slog"
	"os"
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
