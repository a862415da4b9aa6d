package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/native/sdk"
)

const (
	// revision is what is spoken to the server. It has sessions, as all versions of the
	// libraries have them.
	revision = "2025-11-25"
	// mostPages bounds the pages of the list of tools.
	mostPages = 100
	// patience bounds how long a server takes until it has listed its tools.
	patience = 30 * time.Second

	codeInvalidParams = -32602 // JSON-RPC 2.0, section 5.1
)

// Server is an MCP server as its library reaches it. Its methods are called
// concurrently.
type Server interface {
	// Request sends a request and waits for its result, until ctx ends. The id is unique;
	// it is the progress token of a call, too. What the server reports about this request
	// goes to notify, if notify is not nil. An error of JSON-RPC is a [Fault].
	Request(ctx context.Context, id, method string, params json.RawMessage, notify Notify) (json.RawMessage, error)
	// Initialized sends notifications/initialized.
	Initialized(ctx context.Context) error
	// Close ends the session. It may be called again, and does nothing then.
	Close()
}

// Notify is told of a notification.
type Notify func(method string, params json.RawMessage)

// Fault is an error of JSON-RPC.
type Fault struct {
	Code    int
	Message string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s (%d)", f.Message, f.Code) }

// Plugin returns a plugin with the tools of a server, which is connected and asked for
// them when the plugin is initialised. Each function of describe is given every tool and
// may change all but what runs it.
func Plugin(name, version string, connect func() (Server, error), describe []func(*sdk.Tool)) *sdk.Plugin {
	p := sdk.New(name, version)
	a := &adapter{}
	p.Init = func([]byte) (err error) {
		a.close()
		if a.server, err = connect(); err != nil {
			a.server = nil
			return fmt.Errorf("connect to the server: %w", err)
		}
		defer func() {
			if err != nil {
				a.close()
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		tools, err := a.tools(ctx)
		if err != nil {
			return err
		}
		for i := range tools {
			run := tools[i].Run
			for _, each := range describe {
				each(&tools[i])
			}
			tools[i].Run = run
		}
		p.Add(tools...)
		_, err = p.Tools()
		return err
	}
	p.Close = a.close
	return p
}

// adapter is a connected server. Init sets the server, before anything is called.
type adapter struct {
	server Server
	ids    atomic.Int64
}

// close ends the session. A call that still runs fails then.
func (a *adapter) close() {
	if a.server != nil {
		a.server.Close()
	}
}

func (a *adapter) id() string { return "toolgate-" + strconv.FormatInt(a.ids.Add(1), 10) }

func (a *adapter) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return a.server.Request(ctx, a.id(), method, raw, nil)
}

// tools opens the session and lists the tools.
func (a *adapter) tools(ctx context.Context) ([]sdk.Tool, error) {
	type object = map[string]any
	if _, err := a.request(ctx, "initialize", object{
		"protocolVersion": revision, "capabilities": object{}, "clientInfo": object{"name": "toolgate", "version": "1"},
	}); err != nil {
		return nil, fmt.Errorf("initialize the server: %w", err)
	}
	if err := a.server.Initialized(ctx); err != nil {
		return nil, fmt.Errorf("initialize the server: %w", err)
	}
	// A server that does not log refuses this, and that is no fault.
	_, _ = a.request(ctx, "logging/setLevel", object{"level": "debug"})
	var tools []sdk.Tool
	page := object{}
	for range mostPages {
		raw, err := a.request(ctx, "tools/list", page)
		if err != nil {
			return nil, fmt.Errorf("list the tools of the server: %w", err)
		}
		var list struct {
			Tools []definition `json:"tools"`
			Next  string       `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("read the tools of the server: %w", err)
		}
		for i := range list.Tools {
			tools = append(tools, list.Tools[i].tool(a))
		}
		if list.Next == "" {
			return tools, nil
		}
		page["cursor"] = list.Next
	}
	return nil, fmt.Errorf("the server lists its tools in more than %d pages", mostPages)
}

// call runs a tool of the server.
func (a *adapter) call(ctx context.Context, name string, call *sdk.Call) (sdk.Result, error) {
	id, arguments := a.id(), call.Arguments
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	params, err := json.Marshal(map[string]any{
		"name": name, "arguments": json.RawMessage(arguments), "_meta": map[string]string{"progressToken": id},
	})
	if err != nil {
		return sdk.Result{}, err
	}
	raw, err := a.server.Request(ctx, id, "tools/call", params, func(method string, params json.RawMessage) { report(call, method, params) })
	if fault, ok := errors.AsType[*Fault](err); ok && fault.Code == codeInvalidParams {
		return sdk.Result{}, sdk.Problemf("%s", fault.Message)
	}
	if err != nil {
		return sdk.Result{}, err
	}
	return result(raw)
}
