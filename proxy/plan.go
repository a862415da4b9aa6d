package proxy

import (
	"maps"

	"github.com/toolgate/toolgate/gate"
)

// plan is how a kind of request passes the [order]: what its steps do where they
// differ, and which of them it leaves out.
type plan struct {
	name     string
	check    func(*call) error                // the request itself; nil where the table of methods has done it
	find     func(*call) error                // notes what the call is about
	hidden   func(*call, gate.Decision) error // the answer for what the caller may not view
	prepare  func(*call) error
	examine  func(*call) error
	charge   func(*call) error
	exchange func(*call) (reply, error)

	// unlisted tells that the gate is asked about what stands in for the thing that
	// is called, whose arguments are not known.
	unlisted bool
	// silent tells that it is no call of the client: it has no entry in the audit log
	// and is not traced.
	silent bool

	// without are the steps that are left out, each with the reason.
	without map[string]string
}

// plans are all of them.
var plans = []*plan{
	&planCall, &planUnlisted, &planOverloaded, &planTask, &planTaskCancel, &planTaskList, &planObserve, &planKept,
	&planSubscribe, &planListenTo, &planUnsubscribe,
}

// left says why steps are left out.
func left(why string, steps ...string) map[string]string {
	out := make(map[string]string, len(steps))
	for _, step := range steps {
		out[step] = why
	}
	return out
}

// without joins the steps that are left out.
func without(parts ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

var planCall = plan{
	name: "a call", find: findListed, hidden: (*call).unknownName,
	prepare: prepareCall, examine: examineCall, charge: chargeRound, exchange: carryOut,
}

// A call that turns out to be of something that is listed to nobody before a sign-in,
// or for which there is no place to wait, goes on under one of these.
var (
	planUnlisted = plan{
		name: "a call of what is listed after a sign-in", hidden: (*call).unknownName, unlisted: true,
		prepare: prepareUnlisted, exchange: signInFirst,
		without: without(
			left("it has passed this step as a call", "request", "audit", "find"),
			left("no server is asked", "breaker", "running", "breaker again", "concurrency", "breaker pass"),
			left("the call is made again after the sign-in and passes this step then", "arguments", "approval", "grant", "budget", "begin"),
			left("nothing was waited for since the gate was asked", "gate again", "gate last"),
		),
	}
	planOverloaded = plan{
		name: "a call for which there is no place to wait", hidden: (*call).unknownName, exchange: refuseOverloaded,
		without: without(
			left("it has passed this step as a call", "request", "audit", "find"),
			left("it is refused as soon as it is known whether the caller may view what is called",
				"breaker", "prepare", "running", "arguments", "round", "rates", "breaker again", "approval", "concurrency", "gate again",
				"breaker pass", "round once", "grant", "budget", "gate last", "begin"),
		),
	}
)

// ofTasks are the steps that every request about a task leaves out.
var ofTasks = without(
	left("a breaker guards new work, and the task is at its server already", "breaker", "breaker again", "breaker pass"),
	left("a task has no rounds: its questions are answered by tasks/update", "round", "round once"),
	left("the call that made the task was counted", "rates"),
	left("people approved of the call that made the task; the step of the arguments compares what is demanded with that", "approval", "grant"),
)

var (
	planTask = plan{
		name: "tasks/get, tasks/result, tasks/update", check: checkTask, find: findTask, hidden: unknownTask,
		prepare: prepareTask, examine: examineTask, charge: chargeRound, exchange: carryOutTask,
		without: ofTasks,
	}
	planTaskCancel = plan{
		name: "tasks/cancel", check: checkTask, find: findTask, hidden: unknownTask,
		prepare: prepareTask, charge: chargeRound, exchange: carryOutTask,
		without: without(ofTasks,
			left("no mode ends a request that ends something", "running"),
			left("a task may be ended under every mode and rule", "arguments"),
		),
	}
	planTaskList = plan{
		name: "tasks/list", check: checkTaskList, find: findTaskPage, exchange: listTasks,
		without: without(ofTasks,
			left("each task is held against the gate when its server has listed it", "gate", "gate again", "gate last"),
			left("each server that has tasks of the caller is sent a request of its own, at a place of its own", "prepare", "concurrency"),
			left("a list runs nothing", "running"),
			left("a list has no arguments", "arguments"),
			left("budgets count no lists", "budget"),
		),
	}
	planObserve = plan{
		name: "a look at a task that a client listens for", silent: true, find: findObserved, hidden: unknownTask,
		prepare: prepareObserved, examine: examineTask, charge: chargeRound, exchange: observed,
		without: without(ofTasks,
			left("it is the gateway that looks; the request for the subscription was looked at", "request"),
			left("a look is no call of the client and has no entry in the audit log", "audit", "begin"),
			left("a change of the mode is seen by the next look", "running"),
		),
	}
	planKept = plan{
		name: "a read of a kept result", find: findKept, hidden: unknownKept,
		examine: examineKept, exchange: deliverKept,
		without: without(
			left("no server is asked", "breaker", "prepare", "running", "breaker again", "concurrency", "breaker pass", "begin"),
			left("it is answered at once", "round", "round once", "gate again", "gate last"),
			left("the call that made the result has passed this step", "rates", "approval", "grant", "budget"),
		),
	}
)

// ofSubscriptions are the steps that every subscription to a resource leaves out.
var ofSubscriptions = without(
	left("the subscription waits for a server that is down, and is made again when it comes back", "breaker", "breaker again", "breaker pass"),
	left("the first of those who share a connection asks for all of them", "prepare"),
	left("each update is held against the gate and the mode before it is passed on", "running"),
	left("it is answered at once", "round", "round once", "gate again", "gate last"),
	left("the step of the arguments refuses what needs one", "approval", "grant"),
	left("a subscription holds no place", "concurrency"),
)

var (
	planSubscribe = plan{
		name: "resources/subscribe", find: findResource, hidden: (*call).unknownName,
		examine: examineSubscription, charge: roomToWatch, exchange: startWatch,
		without: ofSubscriptions,
	}
	planListenTo = plan{
		name: "a resource of subscriptions/listen", silent: true, find: findResource, hidden: (*call).unknownName,
		examine: examineSubscription, charge: standing, exchange: startListening,
		without: without(ofSubscriptions,
			left("the request for the subscription was looked at", "request"),
			left("a part of a subscription has no entry of its own in the audit log", "audit", "begin"),
		),
	}
	planUnsubscribe = plan{
		name: "resources/unsubscribe", exchange: endWatch,
		without: left("a subscription may always be ended, also one to what is not there any more",
			"audit", "find", "gate", "breaker", "prepare", "running", "arguments", "round", "rates", "breaker again", "approval", "concurrency",
			"gate again", "breaker pass", "round once", "grant", "budget", "gate last"),
	}
)
