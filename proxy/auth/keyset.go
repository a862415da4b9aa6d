package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Default times of an issuer's keys.
const (
	defaultCooldown = 30 * time.Second
	// defaultRefresh is how long a withdrawn key is accepted at most, while the issuer
	// can be reached.
	defaultRefresh = 10 * time.Minute
	// defaultStale is how long at most while it cannot.
	defaultStale = 24 * time.Hour

	coldRetry    = 5 * time.Second  // pause between tries while there are no keys
	lookupTime   = 10 * time.Second // for metadata and keys together
	metadataTime = time.Hour        // how long an address from the metadata is used
	kidMatches   = 4                // keys tried per token
)

// keySet holds the keys of one issuer. They are fetched when the first token comes, and
// again after the refresh time. They are also fetched when a token names an unknown key
// or its signature does not match, but at most once per cooldown, whatever clients
// send. After the refresh time, requests wait for the fetch; shortly before, it runs in
// the background. If it fails, the last keys are used until they are stale.
type keySet struct {
	issuer, address          string // address is empty when it is found through the issuer
	cooldown, refresh, stale time.Duration
	fetch                    *fetcher
	inFlight                 *callGroup[struct{}]

	mu      sync.Mutex
	keys    []publicKey
	fetched time.Time // zero for never
	tried   time.Time
	failure error // of the last try
	found   string
	foundAt time.Time
}

// find returns the keys that may have signed a token: those with its key id or, if it
// names none, those for its algorithm. Without an error there is at least one.
func (s *keySet) find(ctx context.Context, alg, kid string) ([]publicKey, error) {
	found, age := s.cachedKeys(alg, kid)
	switch {
	case len(found) > 0 && age < s.refresh:
		if age >= s.refresh-s.refresh/5 {
			s.start() // nobody has to wait yet
		}
		return found, nil
	case len(found) > 0:
		err := s.renew(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return nil, unavailable(cause)
		}
		if err != nil { // the issuer has not said that any of them is withdrawn
			return found, nil //nolint:nilerr // they serve until they are stale
		}
	default:
		if err := s.renew(ctx); err != nil {
			return nil, err
		}
	}
	if found, _ = s.cachedKeys(alg, kid); len(found) > 0 {
		return found, nil
	}
	return nil, badCredentialf("its key is not one of the issuer's")
}

// cachedKeys returns the matching cached keys and their age.
func (s *keySet) cachedKeys(alg, kid string) (found []publicKey, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age = time.Since(s.fetched)
	if s.fetched.IsZero() || age >= s.stale {
		return nil, age
	}
	for _, k := range s.keys {
		if (kid == "" || k.id == kid) && slices.Contains(k.algs, alg) && len(found) < kidMatches {
			found = append(found, k)
		}
	}
	return found, age
}

// renew fetches the keys unless that was tried a moment ago. Without an error the
// cached keys are as new as possible.
func (s *keySet) renew(ctx context.Context) error {
	_, err := s.start().wait(ctx)
	if !errors.Is(err, errCooldown) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

var errCooldown = errors.New("the cooldown is not over")

// start begins a fetch or joins the one under way. Within the cooldown it fails with
// errCooldown.
func (s *keySet) start() sharedCall[struct{}] {
	return s.inFlight.start("", s.checkCooldown, s.load)
}

func (s *keySet) checkCooldown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := s.cooldown
	if s.fetched.IsZero() {
		pause = min(pause, coldRetry)
	}
	now := time.Now()
	if !s.tried.IsZero() && now.Sub(s.tried) < pause {
		return errCooldown
	}
	s.tried = now
	return nil
}

// load fetches the keys. They replace the previous ones, even if there are none: a key
// that is gone was withdrawn.
func (s *keySet) load(ctx context.Context) (struct{}, error) {
	keys, err := s.fetchKeys(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failure = unavailable(fmt.Errorf("keys of %s: %w", s.issuer, err))
		s.found = ""
		return struct{}{}, s.failure
	}
	s.keys, s.fetched, s.failure = keys, time.Now(), nil
	return struct{}{}, nil
}

func (s *keySet) fetchKeys(ctx context.Context) ([]publicKey, error) {
	from, err := s.keyAddress(ctx)
	if err != nil {
		return nil, err
	}
	data, err := s.fetch.get(ctx, from)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeySet(data)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", from, err)
	}
	return keys, nil
}

// keyAddress returns the address of the keys.
func (s *keySet) keyAddress(ctx context.Context) (string, error) {
	if s.address != "" {
		return s.address, nil
	}
	s.mu.Lock()
	found, at := s.found, s.foundAt
	s.mu.Unlock()
	if found != "" && time.Since(at) < metadataTime {
		return found, nil
	}
	found, err := s.fetch.discover(ctx, s.issuer)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.foundAt = found, time.Now()
	return found, nil
}

// IssuerStatus is the state of an issuer's keys.
type IssuerStatus struct {
	Issuer  string
	Keys    int       // usable ones
	Fetched time.Time // zero for never
	Err     error     // of the last try; nil if it worked or there was none
}

func (s *keySet) status() IssuerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return IssuerStatus{Issuer: s.issuer, Keys: len(s.keys), Fetched: s.fetched, Err: s.failure}
}
