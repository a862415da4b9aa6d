package upstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Without authentication a client is told why a server does not run, without secrets. With
// it, or where nothing hides secrets, it is told only that it does not.
func TestFailureSaysWhy(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	exit := fmt.Errorf("the process ended: %w", &child.ExitError{Command: "x", Code: 3, LastLine: "no licence for " + secret})
	shown := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	failed := func(s *Server) { s.catalog.unreachable(exit) }
	ready := func(s *Server) { s.catalog.publish(&mcp.Listing{}, mcp.Ready, "") }
	for name, tt := range map[string]struct {
		local string
		shown func(string) string
		state func(*Server)
		err   error
		want  string
	}{
		"failed": {
			"me", shown, failed, transport.ErrClosed,
			"The server a has failed: the process ended: x exited with code 3 within a second; it said on stderr: no licence for ***. `toolgate logs a` shows more. It is tried again from time to time.",
		},
		"failed, with authentication": {
			"", shown, failed, transport.ErrClosed,
			"The server a has failed; its operator sees why with `toolgate ls`. It is tried again from time to time.",
		},
		"failed, nothing hides secrets": {
			"me", nil, failed, transport.ErrClosed,
			"The server a has failed; its operator sees why with `toolgate ls`. It is tried again from time to time.",
		},
		"crashed": {
			"me", shown, ready, exit,
			"The process of the server a has ended: x exited with code 3 within a second; it said on stderr: no licence for ***. `toolgate logs a` shows more. It is started again; try again in a moment.",
		},
		"crashed, with authentication": {
			"", shown, ready, exit,
			"The process of the server a has ended; its operator sees why with `toolgate ls`. It is started again; try again in a moment.",
		},
		"starting":  {"me", shown, func(*Server) {}, transport.ErrClosed, "The server a is still starting; try again in a moment."},
		"ready":     {"me", shown, ready, errors.New("reset"), "The connection to the server a was lost or refused; try again in a moment."},
		"no answer": {"me", shown, ready, errCallTimeout, "The server a did not answer within its deadline."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Spec{Key: "a", Command: "x", Local: tt.local}, Options{Sink: &sink{}, Credential: NewStatic(nil), Logger: quietLog, Shown: tt.shown})
			tt.state(s)
			if got := s.failure(t.Context(), tt.err).Error(); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}
