package vectors

import (
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/proxy/find"
)

// TryAgain sets the wait after a first failure, of the endpoint or of a text. It is called
// before Run.
func (v *Vectors) TryAgain(after time.Duration) {
	v.retry = after
	v.wait = backoff.Backoff{Base: after, Max: after, Jitter: -1}
}

// Complete reports whether every item of an index has a vector.
func (v *Vectors) Complete(x *find.Index) bool {
	_, complete := v.inForce.Load().tableOf(x)
	return complete
}

// Put makes vectors known as if an endpoint had returned them. It is for models whose
// endpoint is not asked.
func (v *Vectors) Put(x *find.Index, numbers func(item int) []float32) {
	m := v.inForce.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range x.Len() {
		one, err := quantize(numbers(i))
		if err != nil {
			panic(err)
		}
		one.lot = lot(hash(x.Hash(i)))
		m.known[x.Hash(i)] = one
	}
	m.tabulate(x)
	m.loaded.Store(true)
}

// PutQuery makes the vector of a query known.
func (v *Vectors) PutQuery(tenant, text string, numbers []float32) {
	one, err := quantize(numbers)
	m := v.inForce.Load()
	m.queries.keep(asked{tenant, text}, []*vector{one}, err)
}

// QueryTime is how long a search waits for the vector of its query.
const QueryTime = queryTime

// RestTime is how long an endpoint that does not work is left alone.
const RestTime = restTime

// MaxBatch is how many texts one request has.
const MaxBatch = maxBatch

// MaxFailed is how many texts of a server are set aside at a time, and MaxTries how often
// one is tried.
const (
	MaxFailed = maxFailed
	MaxTries  = maxTries
)

// MaxFailures is how many queries fail until the endpoint is checked, and MaxAskingOf how
// many of the MaxAsking slots one caller has.
const (
	MaxFailures = maxFailures
	MaxAsking   = maxAsking
	MaxAskingOf = maxAskingOf
)

// The parts that tests look at alone.
var (
	Quantize   = quantize
	Decode     = decode
	Parse      = parse
	RetryAfter = retryAfter
)

// Cosine, Encode and Floats are what a vector says.
func (v *vector) Cosine(o *vector) float64 { return v.cosine(o) }

// Encode is the stored form.
func (v *vector) Encode() []byte { return v.encode() }

// Has reports whether an item of an index has a vector.
func (v *Vectors) Has(x *find.Index, item int) bool {
	m := v.inForce.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[x.Hash(item)] != nil
}

// Searches reports whether the table in use is that of an index.
func (v *Vectors) Searches(x *find.Index) bool {
	return v.inForce.Load().table.Load().of.Value() == x
}
