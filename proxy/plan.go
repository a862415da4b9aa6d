package proxy

import (
	"maps"

	"github.com/toolgate/toolgate/gate"
)

// plan is how a kind of request passes the [order]: what its steps do where they
// differ, and which of them it leaves out.
type plan struct {
	name           string
	check          func(*call) error                // the request itself; nil where the table of methods has done it
	find           func(*call) error                // notes what the call is about
	hidden         func(*call, gate.Decision) error // the answer for what the caller may not view
	prepare        func(*call) error
	checkArguments func(*call) error
	charge         func(*call) error
	execute        func(*call) (response, error)

	// unlisted tells that the gate is asked about what stands in for the thing that
	// is called, whose arguments are not known.
	unlisted bool
	// silent tells that it is no call of the client: it has no entry in the audit log
	// and is not traced.
	silent bool

	// mergeOmissions are the steps that are left out, each with the reason.
	omitted map[string]string
}

// plans are all of them.
var plans = []*plan{
	&planCall, &planUnlisted, &planOverloaded, &planTask, &planTaskCancel, &planTaskList, &planPollTask, &planKept,
	&planSubscribe, &planListenTo, &planUnsubscribe,
}

// omit says why steps are left out.
func omit(why string, steps ...string) map[string]string {
	out := make(map[string]string, len(steps))
	for _, step := range steps {
		out[step] = why
	}
	return out
}

// omitted joins the steps that are left out.
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

// A call that turns out to be of something that is listed to nobody before a sign-in,
// or for which there is no place to wait, goes on under one of these.
var (
	planUnlisted = plan{
		name: "a call of what is listed after a sign-in", hidden: (*call).unknownName, unlisted: true,
		prepare: prepareUnlisted, execute: signInFirst,
		omitted: mergeOmissions(
			omit("it has passed this step as a call", "request", "audit", "find"),
			omit("no server is asked", "breaker", "running", "breaker again", "concurrency", "breaker pass"),
			omit("the call is made again after the sign-in and passes this step then", "arguments", "approval", "grant", "budget", "begin"),
			omit("nothing was waited for since the gate was asked", "gate again", "gate last"),
		),
	}
	planOverloaded = plan{
		name: "a call for which there is no place to wait", hidden: (*call).unknownName, execute: refuseOverloaded,
		omitted: mergeOmissions(
			omit("it has passed this step as a call", "request", "audit", "find"),
			omit("it is refused as soon as it is known whether the caller may view what is called",
				"breaker", "prepare", "running", "arguments", "round", "rates", "breaker again", "approval", "concurrency", "gate again",
				"breaker pass", "round once", "grant", "budget", "gate last", "begin"),
		),
	}
)

// omittedForTasks are the steps that every request about a task leaves out.
var omittedForTasks = mergeOmissions(
	omit("a breaker guards new work, and the task is at its server already", "breaker", "breaker again", "breaker pass"),
	omit("a task has no rounds: its questions are answered by tasks/update", "round", "round once"),
	omit("the call that made the task was counted", "rates"),
	omit("people approved of the call that made the task; the step of the arguments compares what is demanded with that", "approval", "grant"),
)

var (
	planTask = plan{
		name: "tasks/get, tasks/result, tasks/update", check: checkTask, find: findTask, hidden: unknownTask,
		prepare: prepareTask, checkArguments: checkTaskRules, charge: chargeRound, execute: executeTaskRequest,
		omitted: omittedForTasks,
	}
	planTaskCancel = plan{
		name: "tasks/cancel", check: checkTask, find: findTask, hidden: unknownTask,
		prepare: prepareTask, charge: chargeRound, execute: executeTaskRequest,
		omitted: mergeOmissions(omittedForTasks,
			omit("no mode ends a request that ends something", "running"),
			omit("a task may be ended under every mode and rule", "arguments"),
		),
	}
	planTaskList = plan{
		name: "tasks/list", check: checkTaskList, find: findTaskPage, execute: listTasks,
		omitted: mergeOmissions(omittedForTasks,
			omit("each task is held against the gate when its server has listed it", "gate", "gate again", "gate last"),
			omit("each server that has tasks of the caller is sent a request of its own, at a place of its own", "prepare", "concurrency"),
			omit("a list runs nothing", "running"),
			omit("a list has no arguments", "arguments"),
			omit("budgets count no lists", "budget"),
		),
	}
	planPollTask = plan{
		name: "a look at a task that a client listens for", silent: true, find: findPolledTask, hidden: unknownTask,
		prepare: preparePoll, checkArguments: checkTaskRules, charge: chargeRound, execute: executePoll,
		omitted: mergeOmissions(omittedForTasks,
			omit("it is the gateway that looks; the request for the subscription was looked at", "request"),
			omit("a look is no call of the client and has no entry in the audit log", "audit", "begin"),
			omit("a change of the mode is seen by the next look", "running"),
		),
	}
	planKept = plan{
		name: "a read of a kept result", find: findKept, hidden: unknownKept,
		checkArguments: checkKept, execute: returnKept,
		omitted: mergeOmissions(
			omit("no server is asked", "breaker", "prepare", "running", "breaker again", "concurrency", "breaker pass", "begin"),
			omit("it is answered at once", "round", "round once", "gate again", "gate last"),
			omit("the call that made the result has passed this step", "rates", "approval", "grant", "budget"),
		),
	}
)

// omittedForSubscriptions are the steps that every subscription to a resource leaves out.
var omittedForSubscriptions = mergeOmissions(
	omit("the subscription waits for a server that is down, and is made again when it comes back", "breaker", "breaker again", "breaker pass"),
	omit("the first of those who share a connection asks for all of them", "prepare"),
	omit("each update is held against the gate and the mode before it is passed on", "running"),
	omit("it is answered at once", "round", "round once", "gate again", "gate last"),
	omit("the step of the arguments refuses what needs one", "approval", "grant"),
	omit("a subscription holds no place", "concurrency"),
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
			omit("the request for the subscription was looked at", "request"),
			omit("a part of a subscription has no entry of its own in the audit log", "audit", "begin"),
		),
	}
	planUnsubscribe = plan{
		name: "resources/unsubscribe", execute: endWatch,
		omitted: omit("a subscription may always be ended, also one to what is not there any more",
			"audit", "find", "gate", "breaker", "prepare", "running", "arguments", "round", "rates", "breaker again", "approval", "concurrency",
			"gate again", "breaker pass", "round once", "grant", "budget", "gate last"),
	}
)
