package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The revisions that this server speaks: one of each era.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
)

// Keys of _meta, and the name of the extension.
const (
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	keyServerInfo   = "io.modelcontextprotocol/serverInfo"
	keySubscription = "io.modelcontextprotocol/subscriptionId"
	keyRelatedTask  = "io.modelcontextprotocol/related-task"
	tasksExtension  = "io.modelcontextprotocol/tasks"
)

// Error codes: those of JSON-RPC and those that MCP defines.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
	codeTaskCancelled      = -32000 // 2025-11-25 names none for the result of a cancelled task
)

// A message is whatever a client sends: a request, a notification (no ID), or,
// in the legacy era, the answer to a question (no Method).
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
	params  params
}

// params holds what the methods of both eras take; each reads its own members.
type params struct {
	Name            string              `json:"name"`
	Arguments       json.RawMessage     `json:"arguments"`
	TaskID          string              `json:"taskId"`
	Cursor          string              `json:"cursor"`
	Task            *taskParams         `json:"task"` // legacy; the modern era ignores it
	InputResponses  map[string]answer   `json:"inputResponses"`
	RequestState    string              `json:"requestState"`
	Notifications   listenFilter        `json:"notifications"`
	RequestID       json.RawMessage     `json:"requestId"`
	ProtocolVersion string              `json:"protocolVersion"`
	Capabilities    *clientCapabilities `json:"capabilities"`
	Meta            struct {
		Version      *string             `json:"io.modelcontextprotocol/protocolVersion"`
		Capabilities *clientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

type taskParams struct {
	TTL *float64 `json:"ttl"` // milliseconds
}

type listenFilter struct {
	TaskIDs []string `json:"taskIds"`
}

type clientCapabilities struct {
	Elicitation *struct {
		Form *struct{} `json:"form"`
		URL  *struct{} `json:"url"`
	} `json:"elicitation"`
	Extensions map[string]json.RawMessage `json:"extensions"`
}

// tasks reports whether the client declares the extension. Nil declares nothing.
func (c *clientCapabilities) tasks() bool {
	return c != nil && c.Extensions[tasksExtension] != nil
}

// forms reports whether the client can be asked by form. An elicitation
// capability without a mode means forms. Nil declares nothing.
func (c *clientCapabilities) forms() bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// rpcError is a JSON-RPC error, and an error of Go.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

func errorf(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// object is a JSON object to be written.
type object = map[string]any

// parse reads one message. Batches are in neither revision. What is not a
// message is nil; a message with an error has params that nobody can read.
func parse(data []byte) (*message, *rpcError) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		if json.Valid(data) {
			return nil, errorf(codeInvalidRequest, "not a JSON-RPC message: %v", err)
		}
		return nil, errorf(codeParse, "not JSON: %v", err)
	}
	m.ID = bytes.TrimSpace(m.ID)
	if m.JSONRPC != "2.0" || (m.ID != nil && !validID(m.ID)) {
		return nil, errorf(codeInvalidRequest, "not a JSON-RPC 2.0 message with a string or an integer as id")
	}
	if len(m.Params) > 0 && m.Method != "" {
		if err := json.Unmarshal(m.Params, &m.params); err != nil {
			return &m, errorf(codeInvalidParams, "invalid params: %v", err)
		}
	}
	return &m, nil
}

func validID(id json.RawMessage) bool {
	var n int64
	var s string
	return string(id) != "null" && (json.Unmarshal(id, &n) == nil || json.Unmarshal(id, &s) == nil)
}

// response makes the message that answers the request with this id.
func response(id json.RawMessage, result object, err *rpcError) object {
	m := object{"jsonrpc": "2.0"}
	if id != nil {
		m["id"] = id
	}
	if err != nil {
		m["error"] = err
	} else {
		m["result"] = result
	}
	return m
}

func notification(method string, params object) object {
	return object{"jsonrpc": "2.0", "method": method, "params": params}
}
