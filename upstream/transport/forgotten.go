package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// sessionPing is the id of the ping that tests a session.
const sessionPing = mcp.ID(`"session"`)

// pingTime bounds the wait for its answer.
const pingTime = 5 * time.Second

// forgotten tells whether a server that answered 400 refuses everything in the session:
// some servers answer 400 when they have forgotten it. But a 400 may also concern that one
// message, which may have been run. A ping decides, because it runs nothing. post sends a
// message in the session, refusal reads an answer that is not 2xx.
func forgotten(ctx context.Context, post func(context.Context, []byte) (*http.Response, error), refusal func(*http.Response, mcp.ID) (mcp.Message, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	resp, err := post(ctx, mcp.AppendRequest(nil, sessionPing, mcp.MethodPing, nil))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
		msg, err := refusal(resp, sessionPing)
		return err != nil || msg.ID.Absent()
	}
	return false
}
