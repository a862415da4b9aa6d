package openid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream/oauth"
)

const (
	// metadataTime is how long the metadata of an issuer counts, failureTime how long a
	// failure to get it does.
	metadataTime = 10 * time.Minute
	failureTime  = 5 * time.Second
	// askTime bounds what is asked of an issuer for one request of a browser.
	askTime = 15 * time.Second
)

// Options are what sign-in is made of. All of it is needed.
type Options struct {
	// Issuers returns those of the settings in force.
	Issuers func() []auth.Issuer
	// Verify returns whom an ID token names, and when it ends.
	Verify func(ctx context.Context, token string, asked auth.IDToken) (*gate.Identity, time.Time, error)
}

// Service implements console.OpenID. It is safe for concurrent use. Make one with [New].
type Service struct {
	o        Options
	inFlight singleflight.Group

	mu    sync.Mutex
	found map[string]metadata // by issuer
}

type metadata struct {
	*oauth.Metadata
	err   error
	until time.Time
}

// New returns the service.
func New(o Options) *Service { return &Service{o: o, found: map[string]metadata{}} }

// Issuers returns where people can sign in.
func (s *Service) Issuers() (names []string) {
	for _, i := range s.o.Issuers() {
		if i.Console.ClientID != "" {
			names = append(names, i.Issuer)
		}
	}
	return names
}

// client returns the console as an issuer knows it.
func (s *Service) client(issuer string) (auth.ConsoleClient, error) {
	for _, i := range s.o.Issuers() {
		if i.Issuer == issuer && i.Console.ClientID != "" {
			return i.Console, nil
		}
	}
	return auth.ConsoleClient{}, failed(gone, errors.New("nobody signs in to the console at this issuer"))
}

// registration is a client as package oauth knows it.
func registration(issuer string, c auth.ConsoleClient) *oauth.Registration {
	return &oauth.Registration{Issuer: issuer, ID: c.ClientID, Secret: c.ClientSecret.Reveal()}
}

// Begin returns a login for a browser to keep, which is secret, and where the browser goes
// with it. Its errors are a [Failure].
func (s *Service) Begin(ctx context.Context, issuer, redirect string) (login []byte, to string, err error) {
	c, err := s.client(issuer)
	if err != nil {
		return nil, "", err
	}
	m, err := s.metadata(ctx, issuer)
	if err != nil {
		return nil, "", err
	}
	if !m.IssuerInResponse && len(s.Issuers()) > 1 {
		// One of them could pass on an answer of another one as its own (RFC 9700 section 4.4).
		return nil, "", failed(nameless, errors.New("its answers do not name it (authorization_response_iss_parameter_supported), so that it must be the only issuer with auth.jwt.console"))
	}
	l, to, err := checking(issuer).BeginOpenID(m, registration(issuer, c), redirect, c.Scopes)
	if err != nil {
		return nil, "", failed(ofBegin(err), err)
	}
	login, err = json.Marshal(l)
	return login, to, failed(unknown, err)
}

// Finish returns who has signed in, and until when, by the login of a browser and the
// answer that it came back with. It asks allowed before it asks the issuer for a token. Its
// errors are a [Failure].
func (s *Service) Finish(ctx context.Context, login []byte, answer url.Values, allowed func() bool) (*gate.Identity, time.Time, error) {
	var l oauth.Login
	if err := json.Unmarshal(login, &l); err != nil {
		return nil, time.Time{}, failed(foreign, fmt.Errorf("read the login: %w", err))
	}
	got, err := oauth.ParseAnswer(answer)
	if err == nil {
		err = l.Check(got)
	}
	if err != nil {
		return nil, time.Time{}, failed(ofAnswer(err), err)
	}
	c, err := s.client(l.Issuer)
	if err != nil {
		return nil, time.Time{}, err
	}
	m, err := s.metadata(ctx, l.Issuer)
	if err != nil {
		return nil, time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	asking, end, err := reaching(l.Issuer, m.TokenEndpoint)
	if err != nil {
		return nil, time.Time{}, failed(metadataBad, err)
	}
	defer end()
	if !allowed() {
		return nil, time.Time{}, failed(unknown, errors.New("too many token requests"))
	}
	token, err := asking.Redeem(ctx, m, registration(l.Issuer, c), &l, got.Code)
	switch {
	case err != nil:
		return nil, time.Time{}, failed(ofToken(err), err)
	case token.ID == "":
		return nil, time.Time{}, failed(noToken, errors.New("the issuer gave no ID token"))
	}
	id, until, err := s.o.Verify(ctx, token.ID, auth.IDToken{Issuer: l.Issuer, ClientID: c.ClientID, Nonce: l.Nonce, Access: token.Access})
	if err == nil && !time.Now().Before(until) {
		err = errOver
	}
	if err != nil {
		return nil, time.Time{}, failed(ofIDToken(err), err)
	}
	return id, until, nil
}

// metadata returns what an issuer says of itself. Browsers of people who have not signed
// in make it ask, so that one question at a time is asked, and few.
func (s *Service) metadata(ctx context.Context, issuer string) (*oauth.Metadata, error) {
	s.mu.Lock()
	known, ok := s.found[issuer]
	s.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.Metadata, known.err
	}
	got, err, _ := s.inFlight.Do(issuer, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime) // others wait for it too
		defer cancel()
		m, err := discover(ctx, issuer)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget()
		if err != nil {
			s.found[issuer] = metadata{err: err, until: time.Now().Add(failureTime)}
			return nil, err
		}
		s.found[issuer] = metadata{Metadata: m, until: time.Now().Add(metadataTime)}
		return m, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*oauth.Metadata), nil
}

// forget removes what counts no more. The caller holds mu.
func (s *Service) forget() {
	now := time.Now()
	for issuer, m := range s.found {
		if !now.Before(m.until) {
			delete(s.found, issuer)
		}
	}
}

func discover(ctx context.Context, issuer string) (*oauth.Metadata, error) {
	asking, end, err := reaching(issuer, issuer)
	if err != nil {
		return nil, failed(metadataBad, err)
	}
	defer end()
	m, err := asking.FindServer(ctx, issuer)
	return m, failed(ofMetadata(err), err)
}
