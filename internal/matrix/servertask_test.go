//go:build e2e

package matrix

import (
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// tasksExtension is the official extension that replaced the tasks of
// 2025-11-25.
const tasksExtension = "io.modelcontextprotocol/tasks"

// job is one task: at work when it is looked at for the first time, complete
// from the second time on.
type job struct {
	id, cell string
	looks    int
	result   []byte
}

// shape renders a task as its revision does; more are further members.
func (j *job) shape(modern bool, more string) string {
	status := "working"
	if j.looks > 1 {
		status = "completed"
	}
	ttl, poll := "ttl", "pollInterval"
	if modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	return fmt.Sprintf(`{"taskId":%s,"status":%q,"createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z",%q:60000,%q:1%s}`,
		mcp.Quote(j.id), status, ttl, poll, more)
}

// newTask starts the task of a tool that cannot do without.
func (in *incoming) newTask() ([]byte, *mcp.Error) {
	s := in.p.s
	modern := s.kind.modern()
	switch {
	case modern && mcp.Lookup(in.capabilities(), "extensions", tasksExtension) == nil:
		fault := mcp.Errorf(mcp.CodeMissingCapability, "this tool needs tasks")
		fault.Data = []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)
		return nil, fault
	case !modern && in.msg.Param("task") == nil: // 2025-11-25 basic/utilities/tasks, Tool-Level Negotiation
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "this tool must be called as a task")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &job{id: fmt.Sprintf("task %d of %s", len(s.tasks)+1, in.cell), cell: in.cell, result: text([]byte("task "+in.cell), "")}
	s.tasks[j.id] = j
	if modern {
		return mcp.SetMember([]byte(j.shape(true, "")), "resultType", []byte(`"task"`)), nil
	}
	return []byte(`{"task":` + j.shape(false, "") + `}`), nil
}

// task answers the methods about tasks; ok is false for any other method.
func (in *incoming) task() (result []byte, fault *mcp.Error, ok bool) {
	s := in.p.s
	name, ours := cutPrefix(in.msg.Method, "tasks/")
	if !ours || s.kind.rev < mcp.V20251125 {
		return nil, nil, false
	}
	modern := s.kind.modern()
	if modern && s.kind.streams() {
		id, _ := in.msg.ParamString("taskId")
		if got, err := mcp.DecodeHeaderValue(in.header.Get(mcp.HeaderName)); err != nil || got != id {
			in.p.broken("the header Mcp-Name is %q for the task %q", got, id)
		}
	}
	if name == "list" {
		return []byte(`{"tasks":[]}`), nil, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := in.msg.ParamString("taskId")
	j := s.tasks[id]
	if j == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown task: %s", id), true
	}
	switch name {
	case "get":
		j.looks++
		more := ""
		if modern && j.looks > 1 {
			more = `,"result":` + string(mcp.SetMember(j.result, "resultType", []byte(`"complete"`)))
		}
		return []byte(j.shape(modern, more)), nil, true
	case "result":
		related := `"io.modelcontextprotocol/related-task":{"taskId":` + string(mcp.Quote(j.id)) + `}`
		return mcp.SetMember(j.result, "_meta", []byte("{"+related+"}")), nil, true
	case "cancel":
		s.board.say(j.cell, "task cancelled", j.id)
		if modern {
			return []byte(`{}`), nil, true
		}
		return []byte(strings.Replace(j.shape(false, ""), `"working"`, `"cancelled"`, 1)), nil, true
	case "update":
		return []byte(`{}`), nil, true
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"), true
}
