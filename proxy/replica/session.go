package replica

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

const (
	// label is that of the seal of sessions.
	label seal.Label = "session"
	// maxCarried bounds what a session id carries, in bytes before it is sealed. An id is in
	// a header of every request.
	maxCarried = 3 << 10
	// CarriedTime is how long after its beginning a session can be rebuilt.
	CarriedTime = 7 * 24 * time.Hour
)

// Session is what the id of a legacy session over HTTP carries, so that another gateway can
// rebuild it once its own is gone. One over HTTP+SSE ends with its stream: its id carries no
// revision.
type Session struct {
	Owner     string `json:"o"`           // id of the gateway that opened it
	Principal []byte `json:"p"`           // key of the principal that it belongs to
	Server    string `json:"s,omitempty"` // of the endpoint, as are the next three
	Capsule   string `json:"c,omitempty"`
	View      string `json:"v,omitempty"`
	Schemas   string `json:"m,omitempty"`
	Began     int64  `json:"b"` // Unix seconds

	// What the client declared; nil where it is too large to carry. A session without a
	// revision cannot be rebuilt.
	Version      string          `json:"r,omitempty"`
	Capabilities json.RawMessage `json:"a,omitempty"`
	ClientInfo   json.RawMessage `json:"i,omitempty"`

	Secret string `json:"n"`
}

// errSession is no session id of these gateways.
var errSession = errors.New("not a session of these gateways")

// Seal returns the id of a new session.
func (s Session) Seal(keys *seal.Keyring) (string, error) {
	s.Began, s.Secret = time.Now().Unix(), rand.Text()
	text, err := json.Marshal(s)
	if err == nil && len(text) > maxCarried { // escapes count, too
		s.Version, s.Capabilities, s.ClientInfo = "", nil, nil
		text, err = json.Marshal(s)
	}
	if err != nil {
		return "", fmt.Errorf("seal a session: %w", err)
	}
	sealed, err := keys.Seal(label, "", text)
	if err != nil {
		return "", err
	}
	return Tag(s.Owner, sealed), nil
}

// OpenSession returns what the id of a session carries.
func OpenSession(keys *seal.Keyring, id string) (Session, error) {
	owner, sealed := Cut(id)
	text, err := keys.Open(label, "", sealed)
	if err != nil {
		return Session{}, errSession
	}
	var s Session
	if err := json.Unmarshal(text, &s); err != nil || s.Owner != owner {
		return Session{}, errSession
	}
	return s, nil
}

// Rebuildable reports whether another gateway can rebuild the session.
func (s *Session) Rebuildable(now time.Time) bool {
	return mcp.Version(s.Version).Era() == mcp.Legacy && s.Version != "" && now.Sub(time.Unix(s.Began, 0)) < CarriedTime
}

// State is what the client of a session has set since it was opened.
type State struct {
	Level      string   `json:"level,omitempty"`      // of log messages; empty for the default
	Subscribed []string `json:"subscribed,omitempty"` // URIs of resources, as the client names them
	Ended      bool     `json:"ended,omitempty"`      // by the client: no gateway goes on with it
}

// States keep the states of sessions. It is safe for concurrent use.
type States interface {
	// Save keeps a state for [CarriedTime], in the background.
	Save(id string, s State)
	// Load returns the last state; the zero value where nothing was set.
	Load(ctx context.Context, id string) (State, error)
}
