package replica

import (
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
	// maxCarried bounds the capabilities and the description of a client that its session
	// id carries, in bytes. An id is in a header of every request.
	maxCarried = 2 << 10
	// carriedTime is how long after its beginning a session can be rebuilt.
	carriedTime = 7 * 24 * time.Hour
)

// Session is what the id of a legacy session carries, so that another gateway can rebuild
// it once its own is gone.
type Session struct {
	Owner     string `json:"o"` // id of the gateway that opened it
	Principal []byte `json:"p"` // key of the principal that it belongs to
	Transport string `json:"t"`
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
	if len(s.Capabilities)+len(s.ClientInfo) > maxCarried {
		s.Version, s.Capabilities, s.ClientInfo = "", nil, nil
	}
	s.Began, s.Secret = time.Now().Unix(), rand.Text()
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("seal a session: %w", err)
	}
	return keys.Seal(label, "", text)
}

// OpenSession returns what the id of a session carries.
func OpenSession(keys *seal.Keyring, id string) (Session, error) {
	text, err := keys.Open(label, "", id)
	if err != nil {
		return Session{}, errSession
	}
	var s Session
	if err := json.Unmarshal(text, &s); err != nil {
		return Session{}, errSession
	}
	return s, nil
}

// Rebuildable reports whether another gateway can rebuild the session.
func (s *Session) Rebuildable(now time.Time) bool {
	return mcp.Version(s.Version).Era() == mcp.Legacy && s.Version != "" && now.Sub(time.Unix(s.Began, 0)) < carriedTime
}
