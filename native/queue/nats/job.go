package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/native/queue"
)

// Headers of messages.
const (
	headID        = "Toolgate-Job"
	headPrincipal = "Toolgate-Principal"
	headPriority  = "Toolgate-Priority"
	headRepeats   = "Toolgate-Repeats"
	headDeadline  = "Toolgate-Deadline"
	headKey       = "Toolgate-Key"
	headState     = "Toolgate-State"
	headAttempt   = "Toolgate-Attempt"
	headReason    = "Toolgate-Reason"
	headEvent     = "Toolgate-Event"
	headReturned  = "Toolgate-Returned"
)

// Events about a job, for its gateway and its worker.
const (
	leased   = "leased"
	beats    = "beats"
	reported = "reported"
	ended    = "ended"
)

// message returns the message of a job.
func message(j *queue.Job) *nats.Msg {
	m := nats.NewMsg(fmt.Sprintf("%s%s.%d.%d.%s", requests, j.Queue, j.Priority, lane(j.Principal), token(j.Principal)))
	m.Data = j.Body
	// The server drops what nobody has leased in its time, by its own clock.
	left := max(time.Until(j.Deadline).Truncate(time.Second)+time.Second, time.Second)
	for name, value := range map[string]string{
		jetstream.MsgTTLHeader: left.String(),
		headID:                 j.ID, jetstream.MsgIDHeader: j.ID, headPrincipal: j.Principal, headPriority: strconv.Itoa(j.Priority), headRepeats: strconv.FormatBool(j.Repeats),
		headDeadline: strconv.FormatInt(j.Deadline.UnixMilli(), 10), headKey: j.Key,
	} {
		m.Header.Set(name, value)
	}
	return m
}

// token returns a principal as a part of a subject.
func token(principal string) string {
	return strings.NewReplacer(".", "_", " ", "_", "*", "_", ">", "_").Replace(principal)
}

// jobOf returns the job of a message.
func jobOf(name string, m jetstream.Msg) queue.Job {
	h := m.Headers()
	priority, _ := strconv.Atoi(h.Get(headPriority)) // ours
	deadline, _ := strconv.ParseInt(h.Get(headDeadline), 10, 64)
	return queue.Job{
		ID: h.Get(headID), Queue: name, Principal: h.Get(headPrincipal), Priority: priority, Repeats: h.Get(headRepeats) == "true",
		Deadline: time.UnixMilli(deadline), Key: h.Get(headKey), Body: m.Data(),
	}
}

func endOf(h nats.Header, body []byte) queue.End {
	attempts, _ := strconv.Atoi(h.Get(headAttempt)) // ours
	return queue.End{State: queue.State(h.Get(headState)), Body: body, Attempts: attempts, Reason: h.Get(headReason)}
}

// taken tells whether a message was not stored because there is another one.
func taken(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// finish writes the end of a job, unless it has one.
func (e *Engine) finish(ctx context.Context, j *queue.Job, end queue.End) error {
	m := nats.NewMsg(results + j.ID)
	m.Data = end.Body
	m.Header.Set(headState, string(end.State))
	m.Header.Set(headAttempt, strconv.Itoa(end.Attempts))
	m.Header.Set(headReason, end.Reason)
	_, err := e.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
	switch {
	case err == nil:
	case taken(err):
		return queue.ErrEnded
	case errors.Is(err, nats.ErrMaxPayload):
		return queue.ErrTooBig
	default:
		return fmt.Errorf("end a job: %w", err)
	}
	if end.State == queue.Dead {
		letter := nats.NewMsg(letters + j.Queue)
		letter.Header = m.Header
		letter.Header.Set(headID, j.ID)
		if _, err := e.js.PublishMsg(ctx, letter); err != nil {
			e.log.Warn("a dead letter is not kept", "job", j.ID, "err", err)
		}
	}
	// What is small comes with the event, so that its gateway need not ask for it.
	event := nats.NewMsg(events + j.ID)
	if len(end.Body) <= smallEnd {
		event.Header, event.Data = maps.Clone(m.Header), end.Body
	}
	event.Header.Set(headEvent, ended)
	_ = e.conn.PublishMsg(event) // those who listen look by themselves as well
	return nil
}

// smallEnd is how large an answer is that comes with the event of its end.
const smallEnd = 32 << 10

// tell says something about a job to whoever listens. It may be lost.
func (e *Engine) tell(id, what string, attempt int, body []byte) {
	m := nats.NewMsg(events + id)
	m.Header.Set(headEvent, what)
	m.Header.Set(headAttempt, strconv.Itoa(attempt))
	m.Data = body
	_ = e.conn.PublishMsg(m) // those who listen look by themselves as well
}

// end returns the end of a job; ok is false for one that has none.
func (e *Engine) end(ctx context.Context, id string) (end queue.End, ok bool, err error) {
	m, err := e.ends.GetLastMsgForSubject(ctx, results+id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return queue.End{}, false, nil
	}
	if err != nil {
		return queue.End{}, false, fmt.Errorf("look for the end of a job: %w", err)
	}
	return endOf(m.Header, m.Data), true, nil
}

// claim says whose a job is. Attempt 0 is nobody's: it was cancelled before it began.
type claim struct {
	attempt  int
	seq      uint64 // 0 if there is none
	returned bool   // it was given back, and waits after attempt deliveries
}

// claimed returns the claim of a job.
func (e *Engine) claimed(ctx context.Context, id string) (claim, error) {
	m, err := e.claims.GetLastMsgForSubject(ctx, claims+id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return claim{}, nil
	}
	if err != nil {
		return claim{}, fmt.Errorf("look for the claim of a job: %w", err)
	}
	attempt, _ := strconv.Atoi(m.Header.Get(headAttempt)) // ours
	return claim{attempt: attempt, seq: m.Sequence, returned: m.Header.Get(headReturned) != ""}, nil
}

// claim claims a job after another claim, or as the first. ok is false if somebody else did.
func (e *Engine) claim(ctx context.Context, id string, attempt int, after uint64) (seq uint64, ok bool, err error) {
	m := nats.NewMsg(claims + id)
	m.Header.Set(headAttempt, strconv.Itoa(attempt))
	return e.putClaim(ctx, m, after)
}

// release has a claimed job wait again.
func (e *Engine) release(ctx context.Context, id string, attempts int, after uint64) (ok bool, err error) {
	m := nats.NewMsg(claims + id)
	m.Header.Set(headAttempt, strconv.Itoa(attempts))
	m.Header.Set(headReturned, "true")
	_, ok, err = e.putClaim(ctx, m, after)
	return ok, err
}

// takeBack claims a job for nobody. waits is false if it does not wait; then before is its
// claim.
func (e *Engine) takeBack(ctx context.Context, id string) (before claim, waits bool, err error) {
	for range 3 { // it may be leased and given back meanwhile
		if _, waits, err = e.claim(ctx, id, 0, before.seq); err != nil || waits {
			return before, waits, err
		}
		if before, err = e.claimed(ctx, id); err != nil || !before.returned {
			return before, false, err
		}
	}
	return before, false, nil
}

func (e *Engine) putClaim(ctx context.Context, m *nats.Msg, after uint64) (seq uint64, ok bool, err error) {
	ack, err := e.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(after))
	if taken(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("claim a job: %w", err)
	}
	return ack.Sequence, true, nil
}
