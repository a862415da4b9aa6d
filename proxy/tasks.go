package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/revision"
)

// A tool call may create a task: it is answered at once with an id, by which the state
// and the result are fetched later. 2025-11-25 (basic/utilities/tasks) and the
// extension of 2026-07-28 (SEP-2663) define tasks differently. Between sides with the
// same kind of tasks the gateway passes them on under ids of its own. For all other
// clients it follows the task itself (see [serverRequests.run]).
//
// The id that a client gets is sealed: it holds everything that is needed to find the
// task, and is bound to the client's principal. Nothing else is stored for it. A
// bounded [taskIndex] serves what comes without such an id: lists and notifications of
// 2025-11-25, and modes that cancel what runs.

// taskRef is the sealed content of a task id.
type taskRef struct {
	server, tool string    // the tool by its name at the server
	conn         string    // the connection of a legacy server, see [mcp.Answer]
	id           string    // the server's own
	approved     approvals // of the call that created it
}

// maxTaskRef bounds the content of an id, because the id travels in a header.
const maxTaskRef = 2048

var (
	// errTask is the response for every id that leads to no task that the caller may
	// know of.
	errTask = mcp.Errorf(mcp.CodeInvalidParams, "Unknown task")
	// errNoTasks is for clients of 2026-07-28 that do not declare tasks.
	errNoTasks = &mcp.Error{
		Code: mcp.CodeMissingCapability, Message: "Missing required client capability: " + mcp.ExtensionTasks,
		Data: []byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`),
	}
)

func (t *taskRef) encode() []byte {
	out := []byte(`{"method":"` + mcp.MethodToolsCall + `","kind":"tool"`)
	for _, m := range [...][2]string{{"server", t.server}, {"original", t.tool}, {"conn", t.conn}, {"id", t.id}} {
		out = append(append(mcp.AppendQuote(append(out, ','), m[0]), ':'), mcp.Quote(m[1])...)
	}
	return append(t.approved.encode(out), '}')
}

func decodeTaskRef(raw []byte) taskRef {
	field := func(name string) string { s, _ := mcp.LookupString(raw, name); return s }
	return taskRef{server: field("server"), tool: field("original"), conn: field("conn"), id: field("id"), approved: decodeApprovals(raw)}
}

// sealTask returns the id of a task for its client.
func (ts *taskService) sealTask(x *Exchange, r *Route, conn, id string, by approvals) (string, error) {
	ref := taskRef{server: r.Server, tool: r.Original, conn: conn, id: id, approved: by}
	raw := ref.encode()
	if id == "" || len(raw) > maxTaskRef {
		return "", badTask(r)
	}
	sealed, err := ts.g.opts.Keys.Seal(seal.Task, x.Identity.Key(), raw)
	if err != nil {
		return "", err
	}
	return replica.Tag(ts.g.replicas.Self(), sealed), nil
}

// badTask is the refusal of a call whose server returned a malformed task.
func badTask(r *Route) *refusal.Error {
	return refusal.BadAnswer(r.Server, "answered with a task in a form that is not of the protocol.")
}

// task is a task that a request names.
type task struct {
	route    *Route // of its tool
	conn, id string // the server's own
	sealed   string // the client's
	approved approvals
}

// openTask returns the task with the id of a client. It resolves the tool again. The
// tasks of its server must be of the client's kind.
func (ts *taskService) openTask(snap *Snapshot, x *Exchange, sealed string) (*task, error) {
	raw, err := ts.g.opts.Keys.Open(seal.Task, x.Identity.Key(), sealedPart(sealed))
	if err != nil {
		return nil, errTask
	}
	ref := decodeTaskRef(raw)
	route := snap.Catalog(x).tool(ref.server, ref.tool, x.Scope)
	if route == nil || !route.to.keepsTasks(x.Era) {
		return nil, errTask
	}
	return &task{route: route, conn: ref.conn, id: ref.id, sealed: sealed, approved: ref.approved}, nil
}

// tool returns the route of a server's tool within a scope, nil when it is not offered.
func (c *Catalog) tool(server, original string, scope Scope) *Route {
	s := c.byServer[server]
	if s == nil || !scope.has(server) {
		return nil
	}
	for _, r := range s.rendered[mcp.Tool] {
		if r.Original == original && c.lists[mcp.Tool].find(r.Exposed) == r {
			return r
		}
	}
	return nil
}

// knowsTasks reports whether a modern client declares the extension. Earlier revisions
// do not have it, whatever a client says.
func (x *Exchange) knowsTasks() bool {
	return x.Era == mcp.Modern && mcp.IsObject(mcp.Lookup(x.Capabilities, "extensions", mcp.ExtensionTasks))
}

// mayUseTasks returns an error where a client cannot use the methods of tasks: it does
// not declare them, or the gateway did not.
func (x *Exchange) mayUseTasks(c *Catalog) error {
	switch {
	case x.Era == mcp.Modern && !x.knowsTasks():
		return errNoTasks
	case x.Era == mcp.Legacy && (x.Version < mcp.V20251125 || !c.hasTasks(x.Scope)):
		return mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", x.Message.Method)
	}
	return nil
}

// hasTasks reports whether a server in scope has tasks of 2025-11-25, or may turn out
// to.
func (c *Catalog) hasTasks(scope Scope) bool {
	return slices.ContainsFunc(c.servers, func(s *backendEntry) bool {
		return scope.has(s.backend.Name()) && (s.listing == nil || s.hasTasks())
	})
}

// permitTask asks the gate about the tool of a task, and returns the demands. Tasks of
// a tool that may not be viewed are unknown.
func (ts *taskService) permitTask(ctx context.Context, x *Exchange, t *task) ([]gate.Demand, error) {
	return ts.g.permit(ctx, x, t.route, t.route.argumentsOf(x), nil, hiddenUnlessUndecided(func() error { return errTask }))
}

// unknownTask is the response for a task that the caller may not view any more.
func unknownTask(c *call, d gate.Decision) error {
	return hiddenUnlessUndecided(func() error { return errTask })(d)
}

// checkTaskRules checks the tool of a task against the rules and the mode in force, and
// the current demands against the approval of the task. A task that began under one
// rule may not go on under every other.
func (ts *taskService) checkTaskRules(ctx context.Context, x *Exchange, t *task, demands []gate.Demand) error {
	more, err := ts.g.snapshot.Load().checkTool(ctx, x, t.route)
	if err != nil {
		return err
	}
	if !t.approved.covers(slices.Concat(demands, more)) {
		return refusal.Unapproved("The approval that this task needs has changed since it began; cancel it, or start it again.")
	}
	return nil
}

// checkTaskRules is [taskService.checkTaskRules] for the task of the call.
func checkTaskRules(c *call) error { return c.g.tasks.checkTaskRules(c.ctx, c.x, c.task, c.demands) }

// checkTool checks a resource, or a tool whose arguments are no longer known, against
// the rules and the mode in force. It returns the approvals that a call would need.
func (s *Snapshot) checkTool(ctx context.Context, x *Exchange, r *Route) ([]gate.Demand, error) {
	if s.arguments == nil {
		return nil, nil
	}
	question := r.question(gate.Call, x.Identity, x.Scope)
	return s.arguments.CheckArguments(ctx, PendingCall{Request: &question, Schema: r.input, Listed: r.item})
}

// decideAgain decides again on a task. It may be called at any time.
func (ts *taskService) decideAgain(ctx context.Context, x *Exchange, t *task) error {
	demands, err := ts.permitTask(ctx, x, t)
	if err != nil {
		return err
	}
	return ts.checkTaskRules(ctx, x, t, demands)
}

// aboutTask serves a request about a task under a plan. It takes the steps of a call,
// except for those that the creation of the task has paid for.
func aboutTask(p *plan) func(*Gateway, context.Context, *Exchange) response {
	return func(g *Gateway, ctx context.Context, x *Exchange) response {
		g.first.For(ctx, x.Scope.Server, true)
		return g.newRequest(x, p, mcp.Tool, "").serve(ctx)
	}
}

// checkTask validates a request about a task.
func checkTask(c *call) error {
	if err := c.x.mayUseTasks(c.snap.Catalog(c.x)); err != nil {
		return err
	}
	if _, ok := c.x.Message.ParamString("taskId"); !ok {
		return mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "taskId" must be a string`)
	}
	if c.x.Message.Method == mcp.MethodTaskUpdate && !answersWellFormed(c.x.Message.Param("inputResponses")) {
		return errResponses
	}
	return nil
}

// findTask finds the task that a request names.
func findTask(c *call) error {
	sealed, _ := c.x.Message.ParamString("taskId")
	t, err := c.g.tasks.openTask(c.snap, c.x, sealed)
	if err != nil {
		return err
	}
	c.task, c.approved, c.name = t, t.approved, t.route.Exposed
	c.setRoute(t.route)
	c.rec.entry.Name = t.route.Exposed
	return nil
}

// prepareTask makes the request about a task, with the server's own id.
func prepareTask(c *call) error {
	params := mcp.SetMember(c.x.Message.Params(), "taskId", mcp.Quote(c.task.id))
	c.request = c.g.newCall(c.x, c.route.to, c.x.Message.Method, mcp.RewriteMeta(params, nil))
	c.request.Conn = c.task.conn
	return nil
}

// executeTaskRequest sends a request about a task to its server and answers the client.
func executeTaskRequest(c *call) (response, error) {
	defer c.noteChange()()
	c.request.Params = c.rec.withTraceContext(c.request.Params)
	got, err := c.sendTaskRequest()
	if err := c.settleRound(&got, err); err != nil {
		return response{}, orUnknown(err)
	}
	answer, err := c.translateTaskResponse(got)
	if err != nil {
		answer = c.refuse(err)
	}
	return c.warned(answer), nil
}

// orUnknown returns the refusal of a failed request about a task. A task ends with the
// connection that its server keeps it for.
func orUnknown(err error) error {
	if failure, ok := errors.AsType[*mcp.Failure](err); ok && failure.Kind == mcp.FailGone {
		return errTask
	}
	return err
}

// answersWellFormed reports whether the answers of tasks/update are present and an
// object of objects.
func answersWellFormed(raw []byte) bool { return raw != nil && responsesWellFormed(raw) }

// sendTaskRequest sends a request about a task to its server.
func (c *call) sendTaskRequest() (mcp.Answer, error) {
	g, x, t, request := c.g, c.x, c.task, c.request
	if x.Message.Method != mcp.MethodTaskResult {
		request.Progress = false
		return t.route.to.backend.Call(c.ctx, request)
	}
	d := &serverRequests{g: g, x: x, to: t.route.to, on: t.route, related: relatedTask(t.sealed), relatedUp: relatedTask(t.id)}
	d.decideAgain = func(ctx context.Context) error { return g.tasks.decideAgain(ctx, x, t) }
	request.Heard, request.Notify, request.Ask, request.Askable = &d.heard, d.notify, d.ask, askable(x, t.route.to.mount.Questions)
	defer func() { c.rec.entry.Rounds = int(d.answered.Load()) }()
	ctx, cancel := t.route.bounded(c.ctx, t.route.hard())
	defer cancel()
	run := &taskRun{d: d, route: t.route, id: t.id, call: request, lastDecision: time.Now()}
	got, err := run.poll(ctx)
	if err != nil || got.Fault != nil {
		return got, err
	}
	c.reserved.delivered = true
	if got, err = run.awaitLegacyTask(ctx, got.Result); err == nil { // the wait may have been long
		err = g.tasks.decideAgain(ctx, x, t)
	}
	return got, err
}

// relatedTask is the member of _meta that ties a message to a task (2025-11-25
// basic/utilities/tasks, Related Task Metadata).
func relatedTask(id string) []byte {
	return append(append([]byte(`"`+mcp.MetaRelatedTask+`":{"taskId":`), mcp.Quote(id)...), '}')
}

// translateTaskResponse turns the response about a task into the client's.
func (c *call) translateTaskResponse(got mcp.Answer) (response, error) {
	g, x, t, rec := c.g, c.x, c.task, c.rec
	key := taskKey{taskPlace{t.route.Server, t.conn}, t.id}
	if x.Message.Method == mcp.MethodTaskResult && got.Fault == nil {
		g.tasks.legacy.ended(key)
	}
	g.tasks.legacy.update(key, got.Result)
	switch {
	case got.Fault != nil: // the error of the server is the answer
		return interceptFault(c, mcp.MethodToolsCall, g.upstreamFault(x, t.route, &rec.entry, got))
	case x.Message.Method == mcp.MethodTaskResult:
		result, note, err := c.filterResult(mcp.MethodToolsCall, got.Result, &got.Known)
		if err != nil {
			return response{}, err
		}
		if got.Era == mcp.Modern {
			result = withoutModern(result)
		}
		return response{result: revision.Message(x.Version, mcp.MethodToolsCall, mcp.RewriteMeta(result, members(relatedTask(t.sealed), note)))}, nil
	case x.Era == mcp.Legacy:
		return response{result: mcp.RewriteMeta(withTaskID(g.redaction(t.route, &rec.entry).state(got.Result), t.sealed), nil)}, nil
	}
	result, err := c.exposeTask(got.Result)
	if err != nil {
		return response{}, err
	}
	return response{result: g.modernResult(mcp.SetMember(result, "resultType", []byte(`"complete"`)), true, false)}, nil
}

// withTaskID replaces the id of a task; an object without one stays as it is.
func withTaskID(object []byte, sealed string) []byte {
	if mcp.LookupSpan(object, "taskId").Absent() {
		return object
	}
	return mcp.SetMember(object, "taskId", mcp.Quote(sealed))
}

// exposeTask returns a task of the extension as its client sees it: under the client's
// id, with only those questions that the client may be asked, and with exposed URIs.
// Members of the call's rounds are removed.
func (c *call) exposeTask(state []byte) ([]byte, error) {
	r := c.route
	if err := c.g.rounds.allowed(c.x, r, state); err != nil {
		return nil, err
	}
	clean := c.g.redaction(r, &c.rec.entry)
	state = names.ExposeQuestions(r.to.mount.Namespace, clean.questions(plainQuestions(clean.state(withTaskID(state, c.task.sealed)))))
	state = mcp.RemoveMember(state, "requestState")
	if inner := mcp.Lookup(state, "result"); mcp.IsObject(inner) {
		inner, note, err := c.filterResult(mcp.MethodToolsCall, inner, &mcp.Known{})
		if err != nil {
			return nil, err
		}
		state = mcp.SetMember(state, "result", mcp.RewriteMeta(inner, note))
	}
	return state, nil
}

// The value of execution.taskSupport that matters here (2025-11-25
// basic/utilities/tasks, Tool-Level Negotiation).
const tasksRequired = "required"

// hasTasks reports whether a server supports the tasks of 2025-11-25. A native backend
// may support both kinds.
func (s *backendEntry) hasTasks() bool {
	return s.listing != nil && (s.listing.Era == mcp.Legacy || s.mount.Native) && s.listing.Declares("tasks", "requests", "tools", "call")
}

// keepsTasks reports whether a server may have tasks of the kind of an era.
func (s *backendEntry) keepsTasks(era mcp.Era) bool {
	return s.listing != nil && (s.listing.Era == era || era == mcp.Legacy && s.hasTasks())
}

// asksTask reports whether a call requests a task of 2025-11-25, and both sides support
// that. Otherwise the request for a task is ignored (Task Support and Handling).
func (x *Exchange) asksTask(to *backendEntry) bool {
	return x.Message.Method == mcp.MethodToolsCall && mcp.IsObject(x.Message.Param("task")) &&
		x.Era == mcp.Legacy && x.Version >= mcp.V20251125 && to.hasTasks()
}

// withoutTask returns the params of a call without the request for a task, where it is
// not asksTask. Between two modern sides the member stays, because it means nothing
// there, unless the server supports both kinds.
func (x *Exchange) withoutTask(params []byte, to *backendEntry) []byte {
	if x.Message.Param("task") == nil || x.asksTask(to) ||
		x.Era == mcp.Modern && to.listing != nil && to.listing.Era == mcp.Modern && !to.hasTasks() {
		return params
	}
	return mcp.RemoveMember(params, "task")
}

// createdTask reports whether a call was answered with a task that its client can use:
// a task of the extension if the client declares it, or one of 2025-11-25 if the client
// asked for it.
func (x *Exchange) createdTask(r *Route, call *mcp.Call, got *mcp.Answer, kind string) bool {
	if call.Method != mcp.MethodToolsCall || got.Era != x.Era {
		return false
	}
	if x.Era == mcp.Modern {
		return kind == mcp.ResultTask && x.knowsTasks()
	}
	return x.asksTask(r.to) && mcp.IsObject(mcp.Lookup(got.Result, "task"))
}

// translateCreatedTask turns a response with a new task into the client's.
func (c *call) translateCreatedTask(got mcp.Answer) (response, error) {
	g, x, r, rec := c.g, c.x, c.route, c.rec
	result := got.Result
	made := result
	if x.Era == mcp.Legacy {
		made = mcp.Lookup(result, "task")
	}
	id, _ := mcp.LookupString(made, "taskId")
	sealed, err := g.tasks.sealTask(x, r, got.Conn, id, c.approved)
	if err != nil {
		return response{}, err
	}
	if x.Era == mcp.Modern {
		// The questions of a task come with its state, and its creation ends the rounds
		// (SEP-2663, Composition with Multi Round-Trip Requests).
		result = mcp.RemoveMember(mcp.RemoveMember(result, "inputRequests"), "requestState")
		g.tasks.extension.add(x, taskKey{taskPlace{r.Server, got.Conn}, id}, r.Original, sealed, made)
		return response{result: g.modernResult(withTaskID(g.redaction(r, &rec.entry).state(result), sealed), true, false)}, nil
	}
	g.tasks.legacy.add(x, taskKey{taskPlace{r.Server, got.Conn}, id}, r.Original, sealed, made)
	result = mcp.SetMember(result, "task", withTaskID(g.redaction(r, &rec.entry).state(made), sealed))
	var meta []byte
	if said := mcp.Lookup(result, "_meta", mcp.MetaImmediate); said != nil { // for the model, not for this hop
		meta = append([]byte(`"`+mcp.MetaImmediate+`":`), said...)
	}
	return response{result: mcp.RewriteMeta(result, meta)}, nil
}
