package proxy

import (
	"maps"

	"github.com/toolgate/toolgate/gate"
)

// plan is how a kind of request passes the [order]: its own versions of some steps, and
// the steps that it leaves out.
type plan struct {
	name           string
	check          func(*call) error                // checks the request; nil where the table of methods did
	find           func(*call) error                // looks up what the call is about
	hidden         func(*call, gate.Decision) error // the refusal of what the caller may not view
	prepare        func(*call) error
	checkArguments func(*call) error
	charge         func(*call) error
	execute        func(*call) (response, error)

	// unlisted means that the gate is asked about the sign-in tool instead of the
	// called one, so that its arguments are unknown.
	unlisted bool
	// silent means that the client did not make this call: it has no audit entry and is
	// not traced.
	silent bool

	// omitted are the steps that are left out, each with the reason.
	omitted map[string]string
}

// plans are all plans.
var plans = []*plan{
	&planCall, &planFound, &planSearch, &planUnlisted, &planOverloaded, &planTask, &planTaskCancel, &planTaskList, &planPollTask, &planKept,
	&planSubscribe, &planListenTo, &planUnsubscribe,
}

// omit leaves out steps for a reason.
func omit(why string, steps ...string) map[string]string {
	out := make(map[string]string, len(steps))
	for _, step := range steps {
		out[step] = why
	}
	return out
}

// mergeOmissions merges omitted steps.
func mergeOmissions(parts ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

var planCall = plan{
	name: "a call", find: findListed, hidden: (*call).unknownName,
	prepare: prepareCall, checkArguments: checkCall, charge: chargeRound, execute: executeCall,
}

// The tools of the find view (see package findview).
var (
	planFound = plan{
		name: "a call by the find view", find: findListed, hidden: (*call).unknownName,
		prepare: prepareFound, checkArguments: checkFound, charge: chargeRound, execute: executeCall,
	}
	planSearch = plan{
		name: "a search of the find view", check: checkSearch, execute: answerSearch,
		omitted: mergeOmissions(
			omit("it searches what the caller may view and calls nothing", "find", "gate", "gate again", "gate last"),
			omit("no server is asked", "breaker", "prepare", "running", "breaker again", "concurrency", "breaker pass", "begin", "reuse"),
			omit("the exchange step reads its arguments, and answers with what is wrong with them", "arguments"),
			omit("it is answered at once", "round", "round once"),
			omit("interceptors look at calls", "interceptors"),
			omit("the request step counts it as a list", "rates"),
			omit("nothing is changed that people could approve", "approval", "grant"),
			omit("budgets count calls", "budget"),
		),
	}
)

// A call continues under one of these when nobody sees the called tool before a
// sign-in, or when there is no room to wait.
var (
	planUnlisted = plan{
		name: "a call of a tool that is listed only after a sign-in", hidden: (*call).unknownName, unlisted: true,
		prepare: prepareUnlisted, execute: signInFirst,
		omitted: mergeOmissions(
			omit("it has passed this step as a call", "request", "audit", "find"),
			omit("no server is asked", "breaker", "running", "breaker again", "concurrency", "breaker pass", "reuse"),
			omit("the call is made again after the sign-in and passes this step then", "arguments", "interceptors", "approval", "grant", "budget", "begin"),
			omit("nothing is delivered before the call is made again", "gate again", "gate last"),
		),
	}
	planOverloaded = plan{
		name: "a call without room to wait", hidden: (*call).unknownName, execute: refuseOverloaded,
		omitted: mergeOmissions(
			omit("it has passed this step as a call", "request", "audit", "find"),
			omit("it is refused as soon as the gate has decided",
				"breaker", "prepare", "running", "arguments", "round", "interceptors", "rates", "breaker again", "approval", "concurrency", "gate again",
				"breaker pass", "round once", "grant", "budget", "gate last", "reuse", "begin"),
		),
	}
)

// omittedForTasks are left out by every request about a task.
var omittedForTasks = mergeOmissions(
	omit("a breaker protects a server from new work, and it has the task already", "breaker", "breaker again", "breaker pass"),
	omit("a task has no rounds: tasks/update answers its questions", "round", "round once"),
	omit("the call that made the task has passed this step, and its result is looked at as that of a call", "interceptors"),
	omit("what is known of a task changes", "reuse"),
)

// omittedWithApproval are left out by requests about a task that run its tool, or return
// what it made.
var omittedWithApproval = mergeOmissions(omittedForTasks,
	omit("the call that made the task was approved; the arguments step compares that approval with the current demands", "approval", "grant"),
)

var (
	planTask = plan{
		name: "tasks/get, tasks/result, tasks/update", check: checkTask, find: findTask, hidden: unknownTask,
		prepare: prepareTask, checkArguments: checkTaskRules, charge: chargeRound, execute: executeTaskRequest,
		omitted: mergeOmissions(omittedWithApproval,
			omit("rates limit calls; the call that made the task was counted, and requests about it take permits", "rates"),
		),
	}
	planTaskCancel = plan{
		name: "tasks/cancel", check: checkTask, find: findTask, hidden: unknownTask,
		prepare: prepareTask, charge: chargeRound, execute: executeTaskRequest,
		omitted: mergeOmissions(omittedForTasks,
			omit("no mode cancels a request that cancels something", "running"),
			omit("a task may be cancelled under every mode, rule and rate, and without an approval", "arguments", "rates", "approval", "grant"),
		),
	}
	planTaskList = plan{
		name: "tasks/list", check: checkTaskList, find: findTaskPage, execute: listTasks,
		omitted: mergeOmissions(omittedForTasks,
			omit("the gate decides on each task that a server lists", "gate", "gate again", "gate last"),
			omit("each server with tasks of the caller gets its own request and its own permit", "prepare", "concurrency"),
			omit("a list runs nothing", "running"),
			omit("a list has no arguments and runs nothing that is approved", "arguments", "approval", "grant"),
			omit("the request step counts it as a list", "rates"),
			omit("budgets count no lists", "budget"),
		),
	}
	planPollTask = plan{
		name: "a poll of a task that a client follows", silent: true, find: findPolledTask, hidden: unknownTask,
		prepare: preparePoll, checkArguments: checkTaskRules, charge: chargeRound, execute: executePoll,
		omitted: mergeOmissions(omittedWithApproval,
			omit("the gateway polls; the request for the subscription was checked", "request"),
			omit("the gateway chooses the pace", "rates"),
			omit("a poll is not a call of the client and has no audit entry; the call that made the task has one", "begin"),
			omit("the exchange step asks the gate, the rules and the mode again before it returns a state", "running"),
		),
	}
	planKept = plan{
		name: "a read of a kept result", find: findKept, hidden: unknownKept,
		checkArguments: checkKept, execute: returnKept,
		omitted: mergeOmissions(
			omit("no server is asked", "breaker", "prepare", "running", "breaker again", "concurrency", "breaker pass", "reuse", "begin"),
			omit("it is answered at once", "round", "round once", "gate again", "gate last"),
			omit("the call that made the result has passed this step", "interceptors", "rates", "budget"),
			omit("the call that made the result was approved; the arguments step compares that approval with the current demands", "approval", "grant"),
		),
	}
)

// omittedForSubscriptions are left out by every subscription to a resource.
var omittedForSubscriptions = mergeOmissions(
	omit("the subscription waits for a server that is down, and is repeated when it is back", "breaker", "breaker again", "breaker pass"),
	omit("the exchange step makes the request, and only for the first subscriber of a connection", "prepare"),
	omit("no mode cancels it; the gate and the mode decide on each update before it is relayed", "running"),
	omit("a subscription has no rounds", "round", "round once"),
	omit("an update says only that there is something to read, and the read passes this step", "interceptors"),
	omit("the gate and the mode decide on each update before it is relayed", "gate again", "gate last"),
	omit("the arguments step refuses resources that need one", "approval", "grant"),
	omit("a subscription holds no permit", "concurrency"),
	omit("a subscription has no result", "reuse"),
)

var (
	planSubscribe = plan{
		name: "resources/subscribe", find: findResource, hidden: (*call).unknownName,
		checkArguments: checkSubscription, charge: checkWatchLimits, execute: startWatch,
		omitted: omittedForSubscriptions,
	}
	planListenTo = plan{
		name: "a resource of subscriptions/listen", silent: true, find: findResource, hidden: (*call).unknownName,
		checkArguments: checkSubscription, charge: checkBudgetsLeft, execute: startListening,
		omitted: mergeOmissions(omittedForSubscriptions,
			omit("the request for the subscription was checked", "request"),
			omit("a subscription delivers no result of a call and has no audit entry", "begin"),
		),
	}
	planUnsubscribe = plan{
		name: "resources/unsubscribe", execute: endWatch,
		omitted: omit("a subscription may be ended whatever is decided of its resource, even if that is gone",
			"audit", "find", "gate", "breaker", "prepare", "running", "arguments", "round", "interceptors", "rates", "breaker again", "approval", "concurrency",
			"gate again", "breaker pass", "round once", "grant", "budget", "gate last", "reuse"),
	}
)
