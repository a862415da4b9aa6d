package queue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

const (
	// decideEvery is how often a gateway decides again on a job that waits.
	decideEvery = 5 * time.Second
	// cancelTime bounds the cancellation of a job whose caller has gone.
	cancelTime = 5 * time.Second
	// longest bounds a job without a hard limit of its own.
	longest = 24 * time.Hour
)

// Sender is a backend that has workers elsewhere run some tools. It stands in front of the
// backend that would run them here, which lists them and runs the others.
type Sender struct {
	Server
	Engine Producer
	Keys   *seal.Keyring // of the gateways
	Log    *slog.Logger
	// Box returns the box of the queue that a tool is marked for, nil if it runs here.
	Box func(tool string) *Box
	// Sent is told of a job that is in the queue, and returns what is called when nobody
	// waits for its end any more. nil is told nothing.
	Sent func(j *Job, tool, principal string) (over func())
}

// Call implements [Server]. The call has been decided on and charged.
func (s *Sender) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	tool, _ := mcp.LookupString(call.Params, "name")
	if call.Method != mcp.MethodToolsCall {
		return s.Server.Call(ctx, call)
	}
	box := s.Box(tool)
	if box == nil {
		return s.Server.Call(ctx, call)
	}
	j, sealed, err := s.job(box, tool, call)
	if err != nil {
		return mcp.Answer{}, err
	}
	if err := s.Engine.Enqueue(ctx, j); err != nil {
		return mcp.Answer{}, s.refused(ctx, j, err)
	}
	if s.Sent != nil {
		defer s.Sent(j, tool, call.Principal)()
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	denied := make(chan error, 1)
	if call.StillAllowed != nil {
		go s.decideAgain(waiting, j, call, denied) // ends with the call
	}
	end, err := s.Engine.Await(waiting, j, func(body []byte) {
		if method, params, ok := sealed.openReport(body); ok && call.Notify != nil {
			call.Notify(method, params)
		}
	})
	if err != nil {
		s.cancel(ctx, j) // nobody waits for it
		if cause := context.Cause(ctx); cause != nil {
			return mcp.Answer{}, cause
		}
		return mcp.Answer{}, &mcp.Failure{
			Kind: mcp.FailUnavailable, Origin: mcp.OriginHop, Server: s.Name(), Delivered: true, Err: err,
			Reason: "The queue does not know this call any more. Whether the tool has done its work is not known: look before you call it again.",
		}
	}
	if end.State == Cancelled {
		select {
		case err := <-denied:
			return mcp.Answer{}, &refusedError{err}
		default:
		}
	}
	return s.answer(j, end, sealed)
}

// job makes the job of a call, and what opens its answer.
func (s *Sender) job(box *Box, tool string, call *mcp.Call) (*Job, *envelope, error) {
	hard := call.Hard
	if hard <= 0 {
		hard = longest
	}
	definition, repeats := s.definition(tool)
	j := &Job{
		ID: rand.Text(), Queue: box.queue, Principal: hash(call.Principal), Repeats: repeats, Deadline: time.Now().Add(hard), Key: box.id,
	}
	if !call.Unattended {
		j.Priority = MaxPriority // its caller waits
	}
	w := &Work{
		Server: s.Name(), Tool: tool, Definition: definition, DecidedAt: time.Now(), Rights: hash(call.Rights), Arguments: mcp.Lookup(call.Params, "arguments"),
		Answer:  s.Keys.MAC("queue answer", fmt.Appendf(nil, "%d:%s%s", len(call.Principal), call.Principal, j.ID)),
		Timeout: call.Timeout, Idle: call.Idle, Hard: hard, Progress: call.Progress, LogLevel: call.LogLevel,
		Expires: j.Deadline, Repeats: repeats,
	}
	sealed, err := newEnvelope(j.ID, w.Answer)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of an answer: %w", err)
	}
	if j.Body, err = box.seal(j.ID, w); err != nil {
		return nil, nil, fmt.Errorf("seal a job: %w", err)
	}
	return j, sealed, nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// definition returns the hash of a tool's definition, and whether it may run again.
func (s *Sender) definition(tool string) (sum string, repeats bool) {
	l, _ := s.Listing()
	return Definition(l, tool)
}

// Definition returns the hash of the definition of a tool, empty for one that is not
// listed, and whether the definition says that a second run does no harm.
func Definition(l *mcp.Listing, tool string) (sum string, repeats bool) {
	if l == nil {
		return "", false
	}
	for i := range l.Items[mcp.Tool] {
		if item := &l.Items[mcp.Tool][i]; item.Key == tool {
			is := func(hint string) bool { return string(mcp.Lookup(item.Raw, "annotations", hint)) == "true" }
			return hash(string(item.Raw)), is("idempotentHint") || is("readOnlyHint")
		}
	}
	return "", false
}

// refused returns why a job was not added.
func (s *Sender) refused(ctx context.Context, j *Job, err error) error {
	switch {
	case errors.Is(err, ErrFull):
		return busy(s.Name(), "many calls wait for a worker of "+j.Queue+" already")
	case errors.Is(err, ErrYours):
		return busy(s.Name(), "many of your calls wait for a worker of "+j.Queue+" already")
	case errors.Is(err, ErrTooBig):
		return &mcp.Failure{Kind: mcp.FailTooLarge, Origin: mcp.OriginHop, Server: s.Name(), Reason: "The arguments are larger than the queue " + j.Queue + " carries."}
	}
	if cause := context.Cause(ctx); cause != nil {
		s.cancel(ctx, j) // it may have been added
		return cause
	}
	s.Log.Error("a job cannot be added to the queue", "queue", j.Queue, "err", err)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	ended, wrong := s.Engine.Cancel(bounded, j, false)
	delivered := !ended && !errors.Is(wrong, ErrUnknown)
	if delivered {
		s.cancel(ctx, j) // nobody waits for it
	}
	return &mcp.Failure{
		Kind: mcp.FailUnavailable, Origin: mcp.OriginHop, Server: s.Name(), Err: err, Delivered: delivered,
		Reason: "The queue " + j.Queue + " cannot be reached; the operator finds out more in the log of the gateway.",
	}
}

// decideAgain takes back a job that waits when it is no longer allowed, and says why
// before.
func (s *Sender) decideAgain(ctx context.Context, j *Job, call *mcp.Call, denied chan<- error) {
	tick := time.NewTicker(decideEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := call.StillAllowed(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		select {
		case denied <- err:
		default: // it was said before, when the job could not be taken back
		}
		if _, wrong := s.Engine.Cancel(ctx, j, false); wrong == nil {
			return // it is taken back, or has begun
		}
	}
}

// cancel ends the job of a caller who has gone.
func (s *Sender) cancel(ctx context.Context, j *Job) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if _, err := s.Engine.Cancel(ctx, j, true); err != nil && !errors.Is(err, ErrUnknown) {
		s.Log.Warn("a job cannot be cancelled", "queue", j.Queue, "job", j.ID, "err", err)
	}
}

// answer returns the answer of a job that has ended, or the one error that says whether it
// may be repeated.
func (s *Sender) answer(j *Job, end End, sealed *envelope) (mcp.Answer, error) {
	f := &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Server: s.Name(), Delivered: end.Attempts > 0}
	switch end.State {
	case Done:
		got, err := sealed.openAnswer(s.Name(), end.Body)
		if _, failed := errors.AsType[*mcp.Failure](err); err == nil || failed {
			return got, err
		}
		f.Kind, f.Reason, f.Err = mcp.FailProtocol, "The worker gave an answer that is not valid. Whether the tool has done its work is not known: look before you call it again.", err
	case Lost:
		f.Reason = "The worker of this call was lost. Whether the tool has done its work is not known, and it must not run twice: look before you call it again."
	case Dead:
		reason := "the log of the gateway has the reason"
		switch end.Reason {
		case notOurs, otherKey, tooLate:
			reason, f.Delivered = end.Reason, end.Attempts > 1 // this worker has not begun
		case LostEachTime:
			reason = end.Reason
		}
		f.Reason = fmt.Sprintf("No worker could run this call (%d tried): %s. It may be called again, but is likely to fail in the same way.", end.Attempts, reason)
		if end.Reason == twice {
			f.Reason = "This call was delivered to two workers, and must not run twice. Whether the tool has done its work is not known: look before you call it again."
		}
	case Expired:
		f.Kind, f.Reason = mcp.FailTimeout, "No worker has run this call within its time. It may be called again."
		if end.Attempts > 0 {
			f.Reason = "The call did not end within its time. Whether the tool has done its work is not known: look before you call it again."
		}
	case Cancelled:
		f.Reason = "The call was cancelled in the queue."
	}
	s.Log.Warn("a job has no answer", "queue", j.Queue, "job", j.ID, "state", end.State, "attempts", end.Attempts, "reason", fmt.Sprintf("%.200s", end.Reason), "err", f.Err)
	return mcp.Answer{}, f
}
