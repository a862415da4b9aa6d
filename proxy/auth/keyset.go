package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Times of an issuer's keys where the options name none.
const (
	defaultCooldown = 30 * time.Second
	// defaultRefresh is the longest that a key which was withdrawn is taken for a good
	// one, while the issuer can be asked.
	defaultRefresh = 10 * time.Minute
	// defaultStale is the longest that it is while the issuer cannot.
	defaultStale = 24 * time.Hour

	coldRetry    = 5 * time.Second  // pause before another try while there are no keys
	lookupTime   = 10 * time.Second // for metadata and keys together
	metadataTime = time.Hour        // that an address from the metadata is used
	kidMatches   = 4                // keys that one token is tried with
)

// keySet is the keys of one issuer. They are fetched when the first token
// comes, again after the refresh time, and when a token names a key that is not
// known or does not fit its signature, which happens at most once per cooldown
// whatever clients send. Beyond the refresh time whoever comes waits for the fetch;
// shortly before it begins without anybody waiting. Only where it fails the last
// keys serve, until they are stale.
type keySet struct {
	issuer, address          string // address is empty when it is found through the issuer
	cooldown, refresh, stale time.Duration
	fetch                    *fetcher
	flights                  *flights[struct{}]

	mu      sync.Mutex
	keys    []publicKey
	fetched time.Time // zero: never
	tried   time.Time
	failure error // of the last try
	found   string
	foundAt time.Time
}

// find returns the keys that a token may have been signed with: those with its
// key id, or, where it names none, those of its algorithm. It never returns
// none without an error.
func (s *keySet) find(ctx context.Context, alg, kid string) ([]publicKey, error) {
	found, age := s.known(alg, kid)
	switch {
	case len(found) > 0 && age < s.refresh:
		if age >= s.refresh-s.refresh/5 {
			s.start() // nobody waits for news yet
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
	if found, _ = s.known(alg, kid); len(found) > 0 {
		return found, nil
	}
	return nil, badf("its key is not one of the issuer's")
}

// known returns the matching keys at hand and how old they are.
func (s *keySet) known(alg, kid string) (found []publicKey, age time.Duration) {
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

// renew has the keys fetched unless that was tried a moment ago. Without an
// error the keys at hand are as new as may be.
func (s *keySet) renew(ctx context.Context) error {
	_, err := s.start().wait(ctx)
	if !errors.Is(err, errCooling) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

var errCooling = errors.New("the cooldown is not over")

// start begins to fetch or joins whoever does. Within the cooldown the flight ends at
// once, with errCooling.
func (s *keySet) start() flight[struct{}] {
	return s.flights.start("", s.mayTry, s.load)
}

func (s *keySet) mayTry() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := s.cooldown
	if s.fetched.IsZero() {
		pause = min(pause, coldRetry)
	}
	now := time.Now()
	if !s.tried.IsZero() && now.Sub(s.tried) < pause {
		return errCooling
	}
	s.tried = now
	return nil
}

// load fetches the keys. What the issuer publishes replaces what it published
// before, down to nothing: a key that is gone was withdrawn.
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
	from, err := s.where(ctx)
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

// where returns the address of the keys.
func (s *keySet) where(ctx context.Context) (string, error) {
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

// IssuerStatus tells how it stands with the keys of an issuer.
type IssuerStatus struct {
	Issuer  string
	Keys    int       // usable ones
	Fetched time.Time // zero: never
	Err     error     // of the last try; nil when it worked or there was none
}

func (s *keySet) status() IssuerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return IssuerStatus{Issuer: s.issuer, Keys: len(s.keys), Fetched: s.fetched, Err: s.failure}
}
