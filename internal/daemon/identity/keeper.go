package identity

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Keeper tells who callers are by the [Set] in force, which a reload replaces together
// with the gate. It implements proxy.Authenticator, proxy.Lasting and proxy.Resource,
// and is safe for concurrent use. Make one with [NewKeeper].
type Keeper struct {
	// Tokens are those that callers were let in by, as far as servers need them.
	Tokens Tokens

	log  *slog.Logger
	now  atomic.Pointer[Set] // with or without authentication from the start to the end
	swap swap                // of the set, with the gate
}

// NewKeeper returns a keeper that begins with a set.
func NewKeeper(first *Set, log *slog.Logger) *Keeper {
	k := &Keeper{log: log}
	k.now.Store(first)
	return k
}

// InForce returns the set by which callers are known at the moment.
func (k *Keeper) InForce() *Set { return k.now.Load() }

// Authenticated tells whether callers are asked who they are.
func (k *Keeper) Authenticated() bool { return k.InForce().Authenticated() }

// Bearer returns whom the Authorization header and the connection of a request stand
// for, judged as at the main endpoint.
func (k *Keeper) Bearer(r *http.Request) (auth.Grant, error) {
	ctx, cancel := context.WithTimeout(r.Context(), grantTime)
	defer cancel()
	return k.identify((&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: endpoint}, Header: http.Header{"Authorization": r.Header["Authorization"]}, TLS: r.TLS,
	}).WithContext(ctx))
}

// identify asks those in force who sent a request. Those that were replaced
// meanwhile could not say.
func (k *Keeper) identify(r *http.Request) (auth.Grant, error) {
	return k.decide(r, k.Tokens.heard)
}

// decide is identify; heard is told of whoever is let in.
func (k *Keeper) decide(r *http.Request, heard func(*http.Request, *auth.Grant)) (auth.Grant, error) {
	for {
		turn := k.swap.wait()
		now := k.InForce()
		if !now.Authenticated() {
			id, err := auth.Loopback{}.Authenticate(r)
			return auth.Grant{Identity: id}, err
		}
		if g, err := now.chain.Identify(r); k.swap.same(turn) {
			if err == nil {
				heard(r, &g)
			}
			return g, err
		}
	}
}

// SwapTo returns what puts a set in force together with the first catalog of
// a configuration. The later ones change nobody.
func (k *Keeper) SwapTo(known *Set) func(inForce func()) {
	var done atomic.Bool
	return func(inForce func()) {
		if done.Swap(true) || k.InForce() == known {
			inForce()
			return
		}
		k.swap.do(func() {
			k.now.Store(known)
			inForce()
		})
	}
}

// Authenticate implements proxy.Authenticator.
func (k *Keeper) Authenticate(r *http.Request) (*gate.Identity, error) {
	g, err := k.identify(r)
	return g.Identity, err
}

var _ proxy.Lasting = (*Keeper)(nil)

// AuthenticateUntil implements proxy.Lasting.
func (k *Keeper) AuthenticateUntil(r *http.Request) (*gate.Identity, time.Time, error) {
	g, err := k.identify(r)
	return g.Identity, g.Until, err
}

var _ proxy.Knowing = (*Keeper)(nil)

// Knows implements proxy.Knowing. Where nobody is asked who they are, everybody may still
// be who they were.
func (k *Keeper) Knows(id *gate.Identity) bool {
	now := k.InForce()
	return !now.Authenticated() || now.Knows(id)
}

// Refuse implements proxy.Resource.
func (k *Keeper) Refuse(h http.Header, r *http.Request, err error) (status int, text string) {
	refusal := k.InForce().resource.Refuse(r, err)
	refusal.SetHeader(h)
	return refusal.Status, strings.ToUpper(refusal.Message[:1]) + refusal.Message[1:]
}

// Serves implements proxy.Resource.
func (k *Keeper) Serves(path string) bool { return k.InForce().resource.Serves(path) }

// ServeHTTP implements proxy.Resource.
func (k *Keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := k.InForce().resource
	if resource == nil {
		http.NotFound(w, r)
		return
	}
	resource.ServeHTTP(w, r)
}

// Identity returns the principal of a client on the local socket or stdio: the owner
// of its API key or token, or the local one on a gateway without authentication.
func (k *Keeper) Identity(ctx context.Context, key string) (*gate.Identity, error) {
	g, err := k.Grant(ctx, key)
	return g.Identity, err
}

// Grant is [Keeper.Identity] with its times. A token there is judged as one of the main
// endpoint.
func (k *Keeper) Grant(ctx context.Context, key string) (auth.Grant, error) {
	return k.grant(ctx, key, k.Tokens.heard)
}

// Visit is [Keeper.Grant] for somebody who has shown a key in a browser. A token is not kept
// for longer than the answer stands.
func (k *Keeper) Visit(ctx context.Context, key string) (auth.Grant, error) {
	return k.grant(ctx, key, k.Tokens.lent)
}

func (k *Keeper) grant(ctx context.Context, key string, heard func(*http.Request, *auth.Grant)) (auth.Grant, error) {
	if !k.InForce().Authenticated() {
		return auth.Grant{Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local})}, nil
	}
	if key == "" {
		return auth.Grant{}, failure.Newf(failure.Auth, "this gateway asks for an API key; set the variable TOOLGATE_API_KEY to the key that `toolgate up` showed at its first start, to one of those under toolgate.auth.keys (`toolgate key new` makes one), or to a token of one of its issuers")
	}
	ctx, cancel := context.WithTimeout(ctx, grantTime)
	defer cancel()
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: endpoint}, Header: http.Header{"Authorization": {"Bearer " + key}},
	}).WithContext(ctx)
	g, err := k.decide(r, heard)
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return auth.Grant{}, failure.Newf(failure.Unreachable, "the token in TOOLGATE_API_KEY cannot be verified at the moment: %w", err)
	case err != nil:
		return auth.Grant{}, failure.Newf(failure.Auth, "this gateway does not know the API key in TOOLGATE_API_KEY; set it to the key that `toolgate up` showed at its first start, to one of those under toolgate.auth.keys (`toolgate key new` makes one), or to a token of one of its issuers that is still valid")
	}
	return g, nil
}

// OpenID returns whom an ID token names that a browser was given by an issuer, and when it
// ends. The claims are read as those of a caller's token.
func (k *Keeper) OpenID(ctx context.Context, token string, asked auth.IDToken) (*gate.Identity, time.Time, error) {
	return k.InForce().tokens.OpenID(ctx, token, asked)
}

const (
	// endpoint is where everything is served.
	endpoint = "/mcp"
	// grantTime bounds what is asked about a token of a local client.
	grantTime = 15 * time.Second
)

// WhileGranted returns a context that ends when the client of a local stream loses its
// access. The returned function ends the watch and waits for it.
func (k *Keeper) WhileGranted(ctx context.Context, key string, g auth.Grant) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if g.Until.IsZero() {
		return ctx, cancel
	}
	ended := make(chan struct{})
	go func() { // ends with the function that is returned
		defer close(ended)
		defer cancel()
		for until := g.Until; !until.IsZero(); {
			timer := time.NewTimer(max(time.Until(until), time.Second))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			again, err := k.Grant(ctx, key)
			if ctx.Err() != nil {
				return
			}
			if err != nil || again.Identity.Key() != g.Identity.Key() {
				k.log.Info("a local client is not let in any more", "principal", g.Identity, "err", err)
				return
			}
			until = again.Until
		}
		<-ctx.Done()
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}
