package proxy

import (
	"github.com/toolgate/toolgate/internal/mcp"
)

// This file is about the calls that become tasks: what is asked for on the way
// to the server, and what is made of its answer.

// Values of execution.taskSupport (2025-11-25 basic/utilities/tasks, Tool-Level
// Negotiation) that matter here.
const tasksRequired = "required"

// hasTasks tells whether a server makes tasks of calls in the way of
// 2025-11-25. What is a part of the gateway may know both ways.
func (s *served) hasTasks() bool {
	return s.listing != nil && (s.listing.Era == mcp.Legacy || s.mount.Native) && s.listing.Declares("tasks", "requests", "tools", "call")
}

// keepsTasks tells whether a server may have tasks of the kind of an era.
func (s *served) keepsTasks(era mcp.Era) bool {
	return s.listing != nil && (s.listing.Era == era || era == mcp.Legacy && s.hasTasks())
}

// asksTask tells whether a call asks for a task in the way of 2025-11-25, and
// both sides have that. A call that does not is none, whatever it says:
// receivers without tasks ignore it (Task Support and Handling).
func (x *Exchange) asksTask(to *served) bool {
	return x.Message.Method == mcp.MethodToolsCall && mcp.IsObject(x.Message.Param("task")) &&
		x.Era == mcp.Legacy && x.Version >= mcp.V20251125 && to.hasTasks()
}

// withoutTask returns the params of a call without the wish for a task, where
// that is no wish of this client to this server. Between two modern sides it
// stays, as there the member means nothing, unless the server knows both ways.
func (x *Exchange) withoutTask(params []byte, to *served) []byte {
	if x.Message.Param("task") == nil || x.asksTask(to) ||
		x.Era == mcp.Modern && to.listing != nil && to.listing.Era == mcp.Modern && !to.hasTasks() {
		return params
	}
	return mcp.RemoveMember(params, "task")
}

// madeTask tells whether a call was answered, by a result of a kind, with a task
// that its client can take: one of the extension to a client that declares it, one of 2025-11-25 to
// a client that asked for it.
func (x *Exchange) madeTask(r *Route, call *mcp.Call, got *mcp.Answer, kind string) bool {
	if call.Method != mcp.MethodToolsCall || got.Era != x.Era {
		return false
	}
	if x.Era == mcp.Modern {
		return kind == mcp.ResultTask && x.knowsTasks()
	}
	return x.asksTask(r.to) && mcp.IsObject(mcp.Lookup(got.Result, "task"))
}

// deliverMade turns the answer that a call is a task now into the client's.
func (c *call) deliverMade(got mcp.Answer) (reply, error) {
	g, x, r, rec := c.g, c.x, c.route, c.rec
	result := got.Result
	made := result
	if x.Era == mcp.Legacy {
		made = mcp.Lookup(result, "task")
	}
	id, _ := mcp.LookupString(made, "taskId")
	sealed, err := g.tasks.sealTask(x, r, got.Conn, id, c.approved)
	if err != nil {
		return reply{}, err
	}
	if x.Era == mcp.Modern {
		// The questions of a task come with its state, and a round is over once
		// there is one (SEP-2663, Composition with Multi Round-Trip Requests).
		result = mcp.RemoveMember(mcp.RemoveMember(result, "inputRequests"), "requestState")
		g.tasks.extension.add(x, taskKey{taskPlace{r.Server, got.Conn}, id}, r.Original, sealed, made)
		return reply{result: g.modernResult(withTaskID(g.redaction(r, &rec.entry).state(result), sealed), true, false)}, nil
	}
	g.tasks.legacy.add(x, taskKey{taskPlace{r.Server, got.Conn}, id}, r.Original, sealed, made)
	result = mcp.SetMember(result, "task", withTaskID(g.redaction(r, &rec.entry).state(made), sealed))
	var meta []byte
	if said := mcp.Lookup(result, "_meta", mcp.MetaImmediate); said != nil { // for the model, not of this hop
		meta = append([]byte(`"`+mcp.MetaImmediate+`":`), said...)
	}
	return reply{result: mcp.RewriteMeta(result, meta)}, nil
}
