package admin

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Policy is the policy in force, as far as it is evaluated in the gateway.
type Policy struct {
	// Revision is what decisions carry; empty where no policy is evaluated here.
	Revision string `json:"revision"`
	// Files are its modules, without tests and data, in the order of their names.
	Files []PolicyFile `json:"files"`
	// Missing says why there are no files; empty if there are.
	Missing string `json:"missing,omitempty"`
}

// PolicyFile is a module of a policy.
type PolicyFile struct {
	Name string `json:"name"` // relative to the folder of the policy
	Text string `json:"text"`
}

// PolicyReplay asks for recorded calls to be decided again with other modules. The data of
// the policy in force and of the gateway stay as they are.
type PolicyReplay struct {
	// Files are all modules of the policy, at most [MaxPolicyFiles] with
	// [MaxPolicyText] bytes together.
	Files []PolicyFile `json:"files"`
	// Since is when the first of the calls has ended. Of these, the last [MaxReplayed] are
	// decided.
	Since time.Time `json:"since"`
}

// Bounds of a [PolicyReplay].
const (
	MaxPolicyFiles = 64
	MaxPolicyText  = 1 << 20
	MaxReplayed    = 10_000
	// MaxReplayChanges bounds the calls that an answer lists.
	MaxReplayChanges = 500
	// ReplaySince is from when calls are decided again where nobody says so.
	ReplaySince = 24 * time.Hour
)

// PolicyReplayed is the answer to a [PolicyReplay].
type PolicyReplayed struct {
	// Problems are all that is wrong with the modules. Nothing was decided if there are any.
	Problems []PolicyProblem `json:"problems,omitempty"`
	// Calls are those of the time that was asked for. Earlier ones of these are left out
	// where there are too many, or where what they carry is too large.
	Calls   int `json:"calls"`
	LeftOut int `json:"left_out"`
	// Counts say how many calls would be decided otherwise, the most frequent ones first.
	Counts []PolicyChange `json:"counts"`
	// Changed are the last of these calls, the latest first.
	Changed     []ReplayedCall `json:"changed"`
	Same        int            `json:"same"`
	Undecidable int            `json:"undecidable"` // the log lacks what the policy reads, or the policy failed then and now
	NotAsked    int            `json:"not_asked"`   // something before the policy refused them, or there was no policy
	// Arguments tells that the policy reads arguments, and was shown those that are recorded.
	Arguments bool `json:"arguments"`
	// Unreadable says that lines of the audit log were skipped; empty if there were none.
	Unreadable string `json:"unreadable,omitempty"`
}

// PolicyProblem is one thing that is wrong with a policy.
type PolicyProblem struct {
	File string `json:"file,omitempty"` // empty where it is not in a file
	Line int    `json:"line,omitempty"` // counted from 1; 0 where it is not in a line
	Text string `json:"text"`
}

// PolicyChange is how many calls changed from one verdict to another. A verdict is allow,
// deny, ask, abstain or error.
type PolicyChange struct {
	Was   string `json:"was"`
	Now   string `json:"now"`
	Calls int    `json:"calls"`
}

// ReplayedCall is a call that would be decided otherwise.
type ReplayedCall struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Tenant string    `json:"tenant"`
	Tool   string    `json:"tool"`
	Was    string    `json:"was"`
	Now    string    `json:"now"`
	Reason string    `json:"reason"`
}

// Errors of a [PolicyReplayer].
var (
	// ErrReplayBusy says that calls are replayed for somebody else.
	ErrReplayBusy = errors.New("calls are being decided again for somebody else; try again in a few seconds")
	// ErrReplayBound says, wrapped, that a policy or its evaluation is over a bound.
	ErrReplayBound = errors.New("this is more than a replay may use")
)

// PolicyReplayer is a [Gateway] that decides recorded calls again.
type PolicyReplayer interface {
	// Policy returns the policy in force.
	Policy(ctx context.Context) (Policy, error)
	// ReplayPolicy decides again. The error is [ErrReplayBusy], [ErrReplayBound],
	// wrapped, or one for people.
	ReplayPolicy(ctx context.Context, q PolicyReplay) (PolicyReplayed, error)
}

func handlePolicy(mux *router, p PolicyReplayer) {
	mux.HandleFunc("GET /v1/policy", func(w http.ResponseWriter, r *http.Request) {
		now, err := p.Policy(r.Context())
		writeFound(w, now, err)
	})
	mux.HandleFunc("POST /v1/policy/replay", func(w http.ResponseWriter, r *http.Request) {
		var q PolicyReplay
		if err := readJSON(r, &q); err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		got, err := p.ReplayPolicy(r.Context(), q)
		status := http.StatusServiceUnavailable
		switch {
		case err == nil:
			writeJSON(w, http.StatusOK, got)
			return
		case errors.Is(err, ErrReplayBusy), errors.Is(err, ErrAuditBusy):
			status = http.StatusTooManyRequests
		case errors.Is(err, ErrReplayBound):
			status = http.StatusRequestEntityTooLarge
		}
		writeJSON(w, status, map[string]any{"error": err.Error()})
	})
}

// Policy returns the policy in force.
func (c *Client) Policy(ctx context.Context) (Policy, error) {
	var out Policy
	err := c.do(ctx, http.MethodGet, "/v1/policy", &out)
	return out, err
}

// ReplayPolicy has the gateway decide recorded calls again.
func (c *Client) ReplayPolicy(ctx context.Context, q PolicyReplay) (PolicyReplayed, error) {
	var out PolicyReplayed
	err := c.post(ctx, "/v1/policy/replay", q, &out)
	return out, err
}
