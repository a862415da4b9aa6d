package console

import (
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// settled are identities under settings that a test changes.
type settled struct {
	Identities
	settings any
}

func (s *settled) Settings() any                        { return s.settings }
func (s *settled) Now(id *gate.Identity) *gate.Identity { return id }
func (s *settled) Role(*gate.Identity) Role             { return Admin }

// A session by the word of an issuer ends when the settings change by which that has counted. One
// by a key follows the settings by itself.
func TestSessionUnderSettings(t *testing.T) {
	t.Parallel()
	ids := &settled{settings: new(int)}
	c := &Console{o: Options{Identities: ids}, sessions: newSessions()}
	id := gate.NewIdentity(gate.Identity{Principal: gate.Local})
	by := map[string]*session{}
	for name, secret := range map[string]string{
		"issuer": c.sessions.beginUnder(id, time.Now().Add(time.Hour), ids.Settings()),
		"key":    c.sessions.begin(id, time.Now().Add(time.Hour)),
	} {
		by[name] = c.sessions.find(secret)
	}
	for _, want := range []bool{true, false} {
		if _, ok := c.who(by["issuer"]); ok != want {
			t.Errorf("the session of an issuer counts: %v", ok)
		}
		if _, ok := c.who(by["key"]); !ok {
			t.Error("the session of a key counts no more")
		}
		ids.settings = new(int)
	}
}
