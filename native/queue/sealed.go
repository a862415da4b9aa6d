package queue

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

// Labels of what queues carry.
const (
	jobLabel    = seal.Kept + "job"
	answerLabel = seal.Kept + "answer"
	reportLabel = seal.Kept + "report"
)

// minKey is how many characters the key of a queue has at least.
const minKey = 32

// ParseKey returns the key of a queue from its text.
func ParseKey(text string) ([]byte, error) {
	if text = strings.TrimSpace(text); len(text) < minKey {
		return nil, fmt.Errorf("the key has %d characters and needs at least %d", len(text), minKey)
	}
	return []byte(text), nil
}

// Box seals the jobs of one queue to its workers. Both sides have its key.
type Box struct {
	queue, id string
	ring      *seal.Keyring
}

// NewBox returns the box of a queue.
func NewBox(queue string, key []byte) (*Box, error) {
	ring, err := seal.NewKeyring(seal.Key{ID: "q", Secret: key})
	if err != nil {
		return nil, err
	}
	return &Box{queue: queue, id: hex.EncodeToString(ring.MAC("queue key", []byte(queue)))[:16], ring: ring}, nil
}

// ID identifies the key, and reveals nothing of it.
func (b *Box) ID() string { return b.id }

func (b *Box) seal(id string, w *Work) ([]byte, error) {
	sealed, err := b.ring.Seal(jobLabel, b.queue+" "+id, joined(w, w.Arguments))
	return []byte(sealed), err
}

// open returns the work of a job. The error means that it was not made with this key, or
// was changed.
func (b *Box) open(j *Job) (*Work, error) {
	text, err := b.ring.Open(jobLabel, b.queue+" "+j.ID, string(j.Body))
	if err != nil {
		return nil, err
	}
	w := &Work{Queue: b.queue}
	if w.Arguments, err = split(text, w); err != nil {
		return nil, err
	}
	return w, nil
}

// Work is what a worker is to do. It has no credential.
type Work struct {
	Server     string        `json:"server"`
	Tool       string        `json:"tool"`
	Definition string        `json:"definition"` // a hash
	DecidedAt  time.Time     `json:"decided_at"`
	Rights     string        `json:"rights"` // for whom: a hash of the caller with what decides its requests
	Answer     []byte        `json:"answer"` // the key of the answer
	Timeout    time.Duration `json:"timeout,omitempty"`
	Idle       time.Duration `json:"idle,omitempty"`
	Hard       time.Duration `json:"hard,omitempty"`
	Progress   bool          `json:"progress,omitempty"`
	LogLevel   string        `json:"log_level,omitempty"`
	Expires    time.Time     `json:"expires"`
	Repeats    bool          `json:"repeats,omitempty"`
	Arguments  []byte        `json:"-"` // verbatim
	Queue      string        `json:"-"` // whose key has opened it
}

// clocksApart is how far the clocks of gateways and workers may be apart.
const clocksApart = 10 * time.Minute

// refusal returns why a job must not run that can be opened, empty for one that may. What
// the engine says of it is not sealed, so that a job could be delivered twice, or long after.
func (w *Work) refusal(attempt int) string {
	switch {
	case time.Since(w.Expires) > clocksApart:
		return tooLate
	case attempt > 1 && !w.Repeats:
		return twice
	}
	return ""
}

// joined returns a header in JSON with bytes behind it, which stay as they are.
func joined(header any, body []byte) []byte {
	text, err := json.Marshal(header)
	if err != nil {
		panic(err) // the types of this file have JSON forms
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)+len(body)), uint32(len(text)))
	return append(append(out, text...), body...)
}

func split(in []byte, header any) (body []byte, err error) {
	if len(in) < 4 || uint64(binary.BigEndian.Uint32(in)) > uint64(len(in)-4) {
		return nil, errors.New("it is cut off")
	}
	n := binary.BigEndian.Uint32(in)
	if err := json.Unmarshal(in[4:4+n], header); err != nil {
		return nil, err
	}
	return bytes.Clone(in[4+n:]), nil
}

// envelope seals the answer and the reports of one job.
type envelope struct {
	id   string
	ring *seal.Keyring
}

func newEnvelope(id string, key []byte) (*envelope, error) {
	ring, err := seal.NewKeyring(seal.Key{ID: "a", Secret: key})
	return &envelope{id, ring}, err
}

// outcome is the answer of a tool, or why there is none; the result is behind it.
type outcome struct {
	Era     mcp.Era  `json:"era"`
	Fault   *fault   `json:"fault,omitempty"`
	Failure *failure `json:"failure,omitempty"`
}

type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    []byte `json:"data,omitempty"`
}

type failure struct {
	Kind      mcp.FailureKind `json:"kind"`
	Origin    mcp.Origin      `json:"origin"`
	Reason    string          `json:"reason"`
	Delivered bool            `json:"delivered"`
}

func (e *envelope) sealAnswer(got mcp.Answer, err error) ([]byte, error) {
	out := outcome{Era: got.Era}
	if got.Fault != nil {
		out.Fault = &fault{got.Fault.Code, got.Fault.Message, got.Fault.Data}
	}
	if err != nil {
		out.Failure = &failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Reason: "The tool could not do it; the log of the worker says why.", Delivered: true}
		if f, ok := errors.AsType[*mcp.Failure](err); ok {
			out.Failure = &failure{f.Kind, f.Origin, f.Reason, f.Delivered}
		}
		got.Result = nil
	}
	sealed, err := e.ring.Seal(answerLabel, e.id, joined(out, got.Result))
	return []byte(sealed), err
}

func (e *envelope) openAnswer(server string, body []byte) (mcp.Answer, error) {
	text, err := e.ring.Open(answerLabel, e.id, string(body))
	if err != nil {
		return mcp.Answer{}, err
	}
	var in outcome
	result, err := split(text, &in)
	switch {
	case err != nil:
		return mcp.Answer{}, err
	case in.Failure != nil:
		return mcp.Answer{}, &mcp.Failure{Kind: in.Failure.Kind, Origin: in.Failure.Origin, Server: server, Reason: in.Failure.Reason, Delivered: in.Failure.Delivered}
	case in.Fault != nil:
		return mcp.Answer{Era: in.Era, Fault: &mcp.Error{Code: in.Fault.Code, Message: in.Fault.Message, Data: in.Fault.Data, Origin: mcp.OriginServer}}, nil
	}
	if err := mcp.Validate(result, mcp.Limits{}); err != nil {
		return mcp.Answer{}, err
	}
	return mcp.Answer{Era: in.Era, Result: result}, nil
}

// report is a notification of a call; its params are behind it.
type report struct {
	Method string `json:"method"`
}

func (e *envelope) sealReport(method string, params []byte) ([]byte, error) {
	sealed, err := e.ring.Seal(reportLabel, e.id, joined(report{method}, params))
	return []byte(sealed), err
}

// openReport returns a notification; ok is false for what is none.
func (e *envelope) openReport(body []byte) (method string, params []byte, ok bool) {
	text, err := e.ring.Open(reportLabel, e.id, string(body))
	if err != nil {
		return "", nil, false
	}
	var in report
	params, err = split(text, &in)
	known := in.Method == mcp.NotifyProgress || in.Method == mcp.NotifyMessage
	return in.Method, params, err == nil && known && mcp.Validate(params, mcp.Limits{}) == nil
}
