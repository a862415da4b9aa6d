package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Activity is what a gateway has done since it started. Its numbers only grow, so two
// answers show what happened between them.
type Activity struct {
	Now time.Time `json:"now"`
	// Sessions is the number of sessions open at this moment.
	Sessions int            `json:"sessions"`
	Tools    []ToolActivity `json:"tools"` // tools that were called, sorted by server and tool
}

// ToolActivity is the activity of one tool.
type ToolActivity struct {
	Server string `json:"server"` // "other" for tools beyond [MaxActivity], and for unknown ones
	Tool   string `json:"tool"`   // the name that callers use
	Calls  int64  `json:"calls"`
	Failed int64  `json:"failed"` // of these: errors of the tool or of its server
	Denied int64  `json:"denied"` // of these: refused by the gateway
	Micros int64  `json:"micros"` // time of all of them together
}

// MaxActivity is the maximum number of tools that are counted separately.
const MaxActivity = 4096

// Watched is a [Gateway] whose activity can be watched.
type Watched interface {
	// Activity returns the activity since the start.
	Activity() Activity
	// Logs returns what the process of a server wrote to its standard error, or with
	// previous what the process before it wrote, or an error
	// if there is no such server.
	Logs(server string, previous bool) (ServerLogs, error)
}

// ServerLogs is the end of what a server's process wrote.
type ServerLogs struct {
	Server string `json:"server"`
	// Process distinguishes one process of the server from the next; 0 is none.
	Process int64 `json:"process"`
	// Ended is how many lines it has written; the last of them are in Lines.
	Ended int      `json:"ended"`
	Lines []string `json:"lines"`
	// Cause says how the process ended; empty while it runs.
	Cause string `json:"cause,omitempty"`
}

func handleWatched(mux *router, g Watched) {
	mux.HandleFunc("GET /v1/activity", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, g.Activity())
	})
	mux.HandleFunc("GET /v1/logs", func(w http.ResponseWriter, r *http.Request) {
		logs, err := g.Logs(r.URL.Query().Get("server"), r.URL.Query().Get("previous") == "true")
		writeFound(w, logs, err)
	})
}

// Activity returns what the gateway has done.
func (c *Client) Activity(ctx context.Context) (Activity, error) {
	var out Activity
	err := c.do(ctx, http.MethodGet, "/v1/activity", &out)
	return out, err
}

// Logs returns what the process of a server has written, or with previous what the process
// before it has written.
func (c *Client) Logs(ctx context.Context, server string, previous bool) (ServerLogs, error) {
	var out ServerLogs
	query := url.Values{"server": {server}, "previous": {strconv.FormatBool(previous)}}
	err := c.do(ctx, http.MethodGet, "/v1/logs?"+query.Encode(), &out)
	return out, err
}
