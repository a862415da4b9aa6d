package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream"
)

const (
	// maxTokens bounds the tokens in the cache.
	maxTokens = 10_000
	// maxTokensEach bounds the tokens of one principal.
	maxTokensEach = 100
)

// Tokens caches the tokens that callers authenticated with, for servers to which they
// are exchanged. Each is exchanged for the requests that it came with. The cache is
// off until [Tokens.Use], and keeps no token longer than it is valid. The zero value
// is empty.
type Tokens struct {
	keep atomic.Bool
	mu   sync.Mutex
	// byToken has each by what stands for it, see [gate.Identity].
	byToken map[string]token
	// latest is the newest token of each set of rights, for what the gateway asks a
	// server apart from requests.
	latest map[string]string
	of     map[string][]string // tokens by principal, oldest first
}

type token struct {
	text, principal, rights string
	until                   time.Time
}

func (t *token) over(now time.Time) bool { return !t.until.IsZero() && now.After(t.until) }

// Use begins to hold tokens, or ends it.
func (p *Tokens) Use(keep bool) {
	p.keep.Store(keep)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !keep {
		p.byToken, p.latest, p.of = nil, nil, nil
	}
}

// heard notes the token of a request that was let in by it. API keys, which no
// issuer has given, are traded for nothing.
func (p *Tokens) heard(r *http.Request, g *auth.Grant) {
	if !p.keep.Load() || g.Identity == nil || g.Identity.Token == "" {
		return
	}
	if text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		until := g.Expires
		if until.IsZero() {
			until = g.Until
		}
		p.note(g.Identity, text, until, true)
	}
}

// lent notes the token of somebody who has shown it in a browser, for as long as the answer
// about it stands. What callers have sent themselves is kept as it is, and goes on being the
// latest.
func (p *Tokens) lent(r *http.Request, g *auth.Grant) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || g.Identity == nil || g.Identity.Token == "" || g.Until.IsZero() {
		return
	}
	name := g.Identity.Token
	if !p.note(g.Identity, text, g.Until, false) {
		return
	}
	time.AfterFunc(time.Until(g.Until), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t, ok := p.byToken[name]; ok && !t.until.After(g.Until) {
			p.forget(name)
		}
	})
}

// note takes the token of a caller who was let in by it until a time, and reports whether it
// did. One that is not the caller's own is the latest only where there is no other one, and
// takes the place of no note of it that still counts.
func (p *Tokens) note(id *gate.Identity, text string, until time.Time, own bool) bool {
	if !p.keep.Load() || text == "" {
		return false
	}
	t := token{text: text, principal: id.Key(), rights: id.Rights(), until: until}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byToken == nil {
		p.byToken, p.latest, p.of = make(map[string]token), make(map[string]string), make(map[string][]string)
	}
	before, known := p.byToken[id.Token]
	if known && !own && !before.over(time.Now()) {
		return false
	}
	if !known {
		for len(p.of[t.principal]) >= maxTokensEach {
			p.forget(p.of[t.principal][0])
		}
		if len(p.byToken) >= maxTokens {
			p.tidy(time.Now())
		}
		if len(p.byToken) >= maxTokens {
			return false
		}
		p.of[t.principal] = append(p.of[t.principal], id.Token)
	}
	p.byToken[id.Token] = t
	if latest, ok := p.byToken[p.latest[t.rights]]; own || !ok || latest.over(time.Now()) {
		p.latest[t.rights] = id.Token
	}
	return true
}

// tidy removes expired tokens; the caller holds mu.
func (p *Tokens) tidy(now time.Time) {
	for name, t := range p.byToken {
		if t.over(now) {
			p.forget(name)
		}
	}
}

// forget removes a token; the caller holds mu.
func (p *Tokens) forget(name string) {
	t := p.byToken[name]
	delete(p.byToken, name)
	if p.latest[t.rights] == name {
		delete(p.latest, t.rights)
	}
	own := slices.DeleteFunc(p.of[t.principal], func(other string) bool { return other == name })
	if p.of[t.principal] = own; len(own) == 0 {
		delete(p.of, t.principal)
	}
}

// Key names the token that a request to a server needs, which implements the key of
// a credential: the one that the request came with, or where that is over, and for
// what the gateway asks by itself, the newest with the same rights.
func (p *Tokens) Key(spec *upstream.Spec) func(ctx context.Context, holder string) string {
	return func(ctx context.Context, holder string) string {
		_, rights := spec.Held(holder)
		p.mu.Lock()
		defer p.mu.Unlock()
		name := upstream.TokenOf(ctx)
		if t, ok := p.byToken[name]; ok && t.rights == rights && !t.over(time.Now()) {
			return name
		}
		newest := p.latest[rights]
		if t := p.byToken[newest]; newest != "" && t.over(time.Now()) {
			p.forget(newest)
			return ""
		}
		return newest
	}
}

// Text returns the token that a name stands for.
func (p *Tokens) Text(name string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.byToken[name]
	if ok && t.over(time.Now()) {
		p.forget(name)
		return "", false
	}
	return t.text, ok
}
