package signin

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
)

// link is the content of a sign-in link.
type link struct {
	Server    string `json:"s"`
	Principal string `json:"p"`
	Expires   int64  `json:"e"` // Unix seconds
	ID        string `json:"i"` // unique to this link
}

// Link returns the address at which a principal signs in to a server, empty where
// browsers cannot reach the gateway.
func (s *Service) Link(server, principal string) (string, error) {
	base := s.base()
	if base == "" {
		return "", nil
	}
	text, err := json.Marshal(link{server, principal, time.Now().Add(linkTime).Unix(), rand.Text()})
	if err != nil {
		return "", fmt.Errorf("write a link: %w", err)
	}
	sealed, err := s.o.Keys.Seal(sealLink, "", text)
	if err != nil {
		return "", fmt.Errorf("seal a link: %w", err)
	}
	return base + linkPath + sealed, nil
}
