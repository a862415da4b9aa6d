package refusal

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
)

// Rated is the refusal of a call that exceeds a rate.
func Rated(by *rate.Refusal) *Error {
	return &Error{
		Kind: KindRate, Code: CodeRate, Phase: "rate", RetryAfter: by.RetryAfter, Limit: by.Rule.Rate.Limit, Err: by,
		Text: "This call comes too soon: " + by.Error() + ". Wait " + rate.Words(by.RetryAfter) + " before you make it again.",
	}
}

// TooOften is the refusal of one request too many of a kind in a minute. what names the
// requests, setting the limit.
func TooOften(what, setting string, limit int64, wait time.Duration) *Error {
	return &Error{
		Kind: KindRate, Code: CodeRate, Phase: "rate", RetryAfter: wait, Limit: limit,
		Text: "Too many " + what + ": at most " + strconv.FormatInt(limit, 10) + " a minute are served (" + setting +
			"); wait " + rate.Words(wait) + " before the next.",
	}
}

// Repeated is the refusal of one identical call too many in a row.
func Repeated(tool string, most int, wait time.Duration) *Error {
	return &Error{
		Kind: "repeated_call", Code: CodeRate, Phase: "rate", RetryAfter: wait, Limit: int64(most),
		Text: fmt.Sprintf("You have made this same call of %s with the same arguments %d times in a row (limits.identical_calls). "+
			"Making it again will not help: use the answers that you have, change the arguments, do something else first, or wait %s.",
			tool, most, rate.Words(wait)),
	}
}

// NestedCycle is the refusal of a call that is made within another one and would lead back
// to it. why is a clause.
func NestedCycle(why string) *Error {
	return &Error{Kind: "nested_cycle", Code: CodeDenied, Phase: "nested", Text: "This call is not made: " + why + "."}
}

// CallerBusy is the refusal of a caller with too many running calls.
func CallerBusy(most int) *Error {
	return &Error{
		Kind: "too_many_calls", Code: CodeRate, Phase: "concurrency",
		Text: "You have " + strconv.Itoa(most) + " calls running, which is the most at once (limits.calls_per_principal); " +
			"wait for some of them to end before you make more.",
	}
}

// CallerWaits is the refusal of a caller with too many calls that wait for servers to
// start.
func CallerWaits(most int) *Error {
	return &Error{
		Kind: "too_many_calls", Code: CodeRate, Phase: "concurrency", RetryAfter: time.Second,
		Text: "You have " + strconv.Itoa(most) + " calls waiting for servers to start, which is the most at once (limits.calls_per_principal); " +
			"wait for some of them to end before you make more.",
	}
}

// StartBusy is the refusal of a call when too many wait for the start of its server.
func StartBusy() *Error {
	return &Error{
		Kind: "upstream_busy", Code: CodeUnavailable, Phase: "concurrency", RetryAfter: time.Second,
		Text: "Too many calls wait for this server to start; try again in a moment.",
	}
}

// QueueFull is the refusal of a call of a server with too many waiting calls.
func QueueFull(server string) *Error {
	return &Error{
		Kind: "upstream_busy", Code: CodeUnavailable, Phase: "concurrency",
		Text: "The server " + server + " has too many calls waiting; try again in a moment.",
	}
}

// TooManySessions is the refusal of a session when all others are busy. whose and
// setting name the limit.
func TooManySessions(most int, whose, setting string, wait time.Duration) *Error {
	return &Error{
		Kind: "too_many_sessions", Code: CodeRate, Phase: "sessions", RetryAfter: wait, Limit: int64(most), Unavailable: true,
		Text: "Too many sessions have something under way: " + strconv.Itoa(most) + " " + whose + " are allowed (" + setting +
			"). End one with DELETE, close its stream or wait for its calls; then try again.",
	}
}

// TooManySubscriptions refuses a subscription, TooManyResources one more resource in a
// subscription. TooManyRounds refuses a call that would wait for its user.
var (
	TooManySubscriptions = &Error{
		Kind: "too_many_subscriptions", Code: CodeRate, Phase: "subscriptions",
		Text: "Too many subscriptions are open; end one of them first.",
	}
	TooManyResources = &Error{
		Kind: "too_many_subscriptions", Code: CodeRate, Phase: "subscriptions",
		Text: "Too many resources are subscribed to; end one of the subscriptions first.",
	}
	TooManyRounds = &Error{
		Kind: "too_many_open_calls", Code: CodeRate, Phase: "rounds",
		Text: "Too many calls wait for an answer of their user (limits.rounds, limits.parked_per_principal); answer or leave some of them first.",
	}
)

// BodiesFull is the refusal of a message while the gateway handles as many bytes as
// allowed.
func BodiesFull(err error) *Error {
	return &Error{
		Kind: "gateway_busy", Code: CodeUnavailable, Phase: "gateway", RetryAfter: time.Second, Unavailable: true, Err: err,
		Text: "The gateway handles as many bytes of messages as it may (limits.bodies), or half of them for one caller; try again in a moment.",
	}
}

// MemoryScarce is the refusal of a message of more than small bytes while the gateway
// is short of memory.
func MemoryScarce(err error, small int) *Error {
	return &Error{
		Kind: "gateway_busy", Code: CodeUnavailable, Phase: "gateway", RetryAfter: 10 * time.Second, Unavailable: true, Err: err,
		Text: fmt.Sprintf("The gateway is short of memory and takes no message of more than %d KiB until it has more; try again later.", small>>10),
	}
}

// Ending is the refusal of a call while the gateway shuts down.
var Ending = &Error{
	Kind: "shutting_down", Code: CodeUnavailable, Phase: "gateway", RetryAfter: 5 * time.Second,
	Text: "The gateway is shutting down and accepts no new calls; try again in a few seconds.",
}

// Uncharged is the refusal of a call that was not charged, because a budget is used up
// or could not be asked; nil for another error.
func Uncharged(err error) *Error {
	switch used, is := errors.AsType[*budget.Refusal](err); {
	case is:
		text := "The budget " + used.Budget + " is used up until " + resetAt(used)
		if used.Hint != "" {
			text += ": " + used.Hint
		}
		return spent(used, text)
	case errors.Is(err, budget.ErrStore):
		return &Error{
			Kind: "budget_unavailable", Code: CodeUnavailable, Phase: "budget", Protocol: true, Err: err, RetryAfter: time.Second,
			Text: "The budgets cannot be read at the moment, so calls that have a limit are refused; try again in a moment.",
		}
	case errors.Is(err, budget.ErrPlan):
		return &Error{
			Kind: "plan_unknown", Code: CodeBudget, Phase: "budget", Err: err,
			Text: "The gateway does not know the plan of this credential; ask its operator.",
		}
	}
	return nil
}

// SpentBytes is the refusal of a result that is larger than the rest of a budget.
func SpentBytes(by *budget.Refusal) *Error {
	return spent(by, "The call was made, but its result is not delivered: it is larger than what was left of the budget "+by.Budget+", which resets at "+resetAt(by))
}

// SpentTime is the refusal of a call that took longer than the rest of a budget.
func SpentTime(by *budget.Refusal) *Error {
	return spent(by, "The call was ended: it took longer than what was left of the budget "+by.Budget+", which resets at "+resetAt(by)+"; what it had done by then is done")
}

func spent(by *budget.Refusal, text string) *Error {
	return &Error{Kind: "budget", Code: CodeBudget, Phase: "budget", Budget: by, Err: by, Text: text + "."}
}

func resetAt(by *budget.Refusal) string { return by.ResetAt.UTC().Format(time.RFC3339) }
