//go:build !windows

package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
)

// A wait that is over before anything was heard says what it waited for.
func TestAwaitRunningHearsNothing(t *testing.T) {
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := awaitRunning(&command.Options{Config: h.file}, ctx, time.Minute)
	if err == nil || strings.Contains(err.Error(), "nil") {
		t.Error(err)
	}
}
