package spicedb

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"

	"github.com/toolgate/toolgate/gate"
)

const (
	// maxAge is how old a cached answer may be: a relationship or caveat that
	// ends by itself is not announced.
	maxAge = 30 * time.Second
	// maxSilence is how long answers are cached without a sign that the Watch
	// stream has delivered what there was.
	maxSilence = 13 * time.Second
	// answerShards divide the cached answers, so that callers wait less for each other.
	answerShards = 16
	// maxKey is the longest cache key that is not hashed, in bytes.
	maxKey = 512
)

// generation is what is known between two changes of the relationships. It is
// replaced, never changed; its caches are filled by reads that began while it
// was the current one. The zero generation caches nothing and reads fully
// consistent.
type generation struct {
	// number tells two generations apart between which something changed.
	number uint64
	// live tells that the Watch stream stands.
	live bool
	// token is a ZedToken that reads must be at least as fresh as.
	token string
	// ours is the token of relationships that we wrote and that the stream has
	// not delivered yet: until then nothing is cached.
	ours string

	answers *answers
	lookups *lookups
}

// cacheable tells whether answers may be cached between calls.
func (g *generation) cacheable() bool { return g.live && g.ours == "" && g.answers != nil }

// consistency is how fresh a read must be.
func (g *generation) consistency(full bool) *v1.Consistency {
	if full || !g.cacheable() || g.token == "" {
		return &v1.Consistency{Requirement: &v1.Consistency_FullyConsistent{FullyConsistent: true}}
	}
	return &v1.Consistency{Requirement: &v1.Consistency_AtLeastAsFresh{AtLeastAsFresh: &v1.ZedToken{Token: g.token}}}
}

// answer is an answer of SpiceDB.
type answer struct {
	allow    bool
	reason   string        // of a deny
	revision string        // ZedToken at which it was read
	asked    time.Duration // on the phase's clock, before the question
}

// decision is the answer as the gate takes it.
func (a answer) decision() gate.Decision {
	if a.allow {
		return gate.Decision{Effect: gate.Allow, Revision: a.revision}
	}
	return gate.Decision{Effect: gate.Deny, Reason: a.reason, Revision: a.revision}
}

// answers are cached single answers, bounded in number.
type answers struct {
	seed   maphash.Seed
	limit  int // of each shard
	shards [answerShards]answerShard
}

type answerShard struct {
	mu     sync.RWMutex
	cached map[string]answer
}

func newAnswers(limit int) *answers {
	return &answers{seed: maphash.MakeSeed(), limit: max(1, limit/answerShards)}
}

func (a *answers) shard(key []byte) *answerShard {
	return &a.shards[maphash.Bytes(a.seed, key)%answerShards]
}

// get returns a cached answer.
func (a *answers) get(key []byte) (answer, bool) {
	s := a.shard(key)
	s.mu.RLock()
	found, ok := s.cached[string(key)]
	s.mu.RUnlock()
	return found, ok
}

// put caches an answer. A shard that is full is emptied first.
func (a *answers) put(key []byte, found answer) {
	s := a.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached == nil || len(s.cached) >= a.limit {
		s.cached = map[string]answer{}
	}
	s.cached[string(key)] = found
}

// appendKey appends everything of a request that its answer depends on. No two
// requests with different answers have the same key.
func appendKey(key []byte, r *gate.Request) []byte {
	key = append(key, byte(r.Kind))
	key = appendText(key, r.Server)
	key = appendText(key, r.Original)
	key = appendText(key, r.Exposed)
	key = appendText(key, r.Unsuffixed)
	key = appendText(key, r.CapabilityID)
	return shortKey(appendCaller(key, r.Action, r.Identity))
}

// appendCaller appends who asks and what for: the subject and all of the
// caveat context but the time.
func appendCaller(key []byte, action gate.Action, id *gate.Identity) []byte {
	key = appendText(key, string(action))
	key = appendText(key, id.Issuer)
	key = appendText(key, id.Tenant)
	key = appendText(key, id.Subject)
	key = appendText(key, id.Persona)
	key = binary.AppendUvarint(key, uint64(len(id.Groups)))
	for _, g := range id.Groups {
		key = appendText(key, g)
	}
	return key
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

// shortKey bounds a key. A digest begins with a byte that no kind has.
func shortKey(key []byte) []byte {
	if len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256(key)
	return append(append(key[:0], 0xff), sum[:]...)
}
