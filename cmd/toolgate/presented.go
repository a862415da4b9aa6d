package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

// maxPresented bounds how many callers' tokens are held.
const maxPresented = 10_000

// presented holds the latest token that each caller proved its identity with, for
// servers that it is traded for. It holds nothing unless it is told to, and never
// longer than the token is good. The zero value holds nothing.
type presented struct {
	keep        atomic.Bool
	mu          sync.Mutex
	byPrincipal map[string]token
}

type token struct {
	text  string
	until time.Time
}

// use begins to hold tokens, or ends it.
func (p *presented) use(keep bool) {
	p.keep.Store(keep)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !keep {
		p.byPrincipal = nil
	}
}

// trades tells whether some server is shown what callers' own tokens are traded
// for.
func trades(list []config.Server) bool {
	return slices.ContainsFunc(list, func(s config.Server) bool {
		return s.AuthMode() == config.AuthExchanged && s.Auth.Exchange.Subject == ""
	})
}

// heard notes the token of a request that was let in by it. API keys, which no
// issuer has given, are traded for nothing.
func (p *presented) heard(r *http.Request, g *auth.Grant) {
	if !p.keep.Load() || g.Identity == nil {
		return
	}
	switch g.Identity.Issuer {
	case "", auth.KeyIssuer, auth.CertificateIssuer, gate.Local.Issuer:
		return
	}
	if text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		until := g.Expires
		if until.IsZero() {
			until = g.Until
		}
		p.note(g.Identity.Key(), text, until)
	}
}

// note takes the token of a caller who was let in by it until a time.
func (p *presented) note(principal, text string, until time.Time) {
	if !p.keep.Load() || text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPrincipal == nil {
		p.byPrincipal = make(map[string]token)
	}
	if _, known := p.byPrincipal[principal]; !known && len(p.byPrincipal) >= maxPresented {
		now := time.Now()
		for who, t := range p.byPrincipal {
			if now.After(t.until) {
				delete(p.byPrincipal, who)
			}
		}
		if len(p.byPrincipal) >= maxPresented {
			return
		}
	}
	p.byPrincipal[principal] = token{text, until}
}

// of returns the token of a caller.
func (p *presented) of(principal string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.byPrincipal[principal]
	if !ok || !t.until.IsZero() && time.Now().After(t.until) {
		delete(p.byPrincipal, principal)
		return "", false
	}
	return t.text, true
}
