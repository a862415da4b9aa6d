package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// run runs a program of the system with fixed arguments and returns the first bytes that
// it prints. A program that prints more is ended.
func run(ctx context.Context, limit time.Duration, most int64, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC"}
	c.WaitDelay = time.Second
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	data, failed := io.ReadAll(io.LimitReader(out, most+1))
	cut := int64(len(data)) > most
	if cut {
		cancel()
	}
	err = c.Wait()
	switch {
	case failed != nil:
		return nil, failed
	case cut:
		return data[:most], nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not end within %s", program, limit)
	}
	return data, err
}
