//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// driveTask calls a tool that must run as a task, by a client that knows of
// none: the gateway drives the task, and the client gets its result. A modern
// client could declare tasks, so a modern server's word that it has to is for
// the client to act on.
func driveTask(ctx context.Context, c *cell) error {
	if c.down.modern() && c.to.kind.modern() {
		return missingTasks(c.client.do(ctx, mcp.MethodToolsCall, c.params("task", "")))
	}
	got, err := c.call(ctx, "task", "")
	if err != nil {
		return err
	}
	return is("the result", []byte(said(got.result)), "task "+c.id)
}

// missingTasks wants the error that says which capability is missing.
func missingTasks(got outcome, err error) error {
	switch {
	case err != nil:
		return err
	case got.fault == nil || got.fault.Code != mcp.CodeMissingCapability:
		return fmt.Errorf("not the error of a missing capability: %+v %s", got.fault, got.result) //nolint:errorlint // it is what is looked at
	}
	return is("the data of the error", got.fault.Data, `{"requiredCapabilities":{"extensions":{"`+tasksExtension+`":{}}}}`)
}

// looks bounds how often a task is asked for its state.
const looks = 20

// tasks calls the same tool by a client that knows the tasks of its own
// revision. Within one revision they pass, with ids that are the gateway's;
// between the two the gateway drives the task where it cannot pass it on.
func tasks(ctx context.Context, c *cell) error {
	params, asTask, err := c.taskParams(ctx)
	if err != nil {
		return err
	}
	got, err := c.good(c.client.do(ctx, mcp.MethodToolsCall, params))
	if err != nil {
		return err
	}
	if said(got.result) == "task "+c.id && (c.down.rev != c.to.kind.rev || !asTask) {
		return nil
	}
	task := mcp.Lookup(got.result, "task")
	if c.down.modern() {
		task = got.result
		if err := is("resultType", mcp.Lookup(task, "resultType"), `"task"`); err != nil {
			return err
		}
	}
	return c.poll(ctx, task)
}

// taskParams are the params of a call by a client that knows tasks, as far as
// the gateway offers them: since 2026-07-28 the server decides, before the list
// says which tools may, and which must, be called as a task.
func (c *cell) taskParams(ctx context.Context) (params []byte, asTask bool, err error) {
	params = c.params("task", "")
	if c.down.modern() {
		if mcp.Lookup(c.client.offered, "extensions", tasksExtension) == nil {
			return nil, false, fmt.Errorf("the gateway does not offer tasks: %s", c.client.offered)
		}
		return c.declaring(params), true, nil
	}
	tool, err := c.item(ctx, mcp.Tool, c.to.tool("task"))
	if err != nil {
		return nil, false, err
	}
	support, _ := mcp.LookupString(tool, "execution", "taskSupport")
	switch {
	case c.to.kind.rev == c.down.rev && support != "required":
		return nil, false, fmt.Errorf("the tool does not say that it needs tasks: %s", tool)
	case support != "required" && support != "optional":
		return params, false, nil
	case mcp.Lookup(c.client.offered, "tasks", "requests", "tools", "call") == nil:
		return nil, false, fmt.Errorf("the gateway does not offer tasks: %s", c.client.offered)
	}
	return mcp.SetMember(params, "task", []byte(`{"ttl":60000}`)), true, nil
}

// declaring returns the params of a modern request by a client that knows tasks:
// it says so with every request (2026-07-28 basic, Per-request protocol fields).
func (c *cell) declaring(params []byte) []byte {
	declared := mcp.SetMember([]byte(c.client.capabilities), "extensions", []byte(`{"`+tasksExtension+`":{}}`))
	return mcp.SetMember(params, "_meta", []byte(`{"`+mcp.MetaVersion+`":"`+string(c.down.rev)+`","`+mcp.MetaClientInfo+`":`+c.client.info()+
		`,"`+mcp.MetaCapabilities+`":`+string(declared)+`}`))
}

// poll follows a task to its result.
func (c *cell) poll(ctx context.Context, task []byte) error {
	id := mcp.Lookup(task, "taskId")
	if id == nil || strings.Contains(string(id), "task ") {
		return fmt.Errorf("the id of the task is not the gateway's: %s", task)
	}
	params := []byte(`{"taskId":` + string(id) + `}`)
	if c.down.modern() {
		params = c.declaring(params)
	}
	for range looks {
		got, err := c.good(c.client.do(ctx, "tasks/get", params))
		if err != nil {
			return err
		}
		if err := is("the id of the task", mcp.Lookup(got.result, "taskId"), string(id)); err != nil {
			return err
		}
		switch status, _ := mcp.LookupString(got.result, "status"); status {
		case "working":
			continue
		case "completed":
		default:
			return fmt.Errorf("the task is %q", status)
		}
		if c.down.modern() {
			return is("the result", []byte(said(mcp.Lookup(got.result, "result"))), "task "+c.id)
		}
		final, err := c.good(c.client.do(ctx, "tasks/result", params))
		if err != nil {
			return err
		}
		return errors.Join(
			is("the result", []byte(said(final.result)), "task "+c.id),
			is("the related task", mcp.Lookup(final.result, "_meta", "io.modelcontextprotocol/related-task", "taskId"), string(id)),
		)
	}
	return errors.New("the task does not end")
}
