package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// message is a JSON-RPC message, as far as this server reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string `json:"protocolVersion"`
		Name            string `json:"name"`
		Phase           string `json:"phase"`
		Payload         struct {
			Method string         `json:"method"`
			Params map[string]any `json:"params"`
		} `json:"payload"`
	} `json:"params"`
}

// hosted are the interceptors of the server, in the words of the draft SEP-2624.
var hosted = []map[string]any{
	{
		"name": "passwords", "type": "validation", "description": "Denies notes with passwords.",
		"hooks": []map[string]any{{"events": []string{"tools/call"}, "phase": "request"}},
	},
	{
		"name": "spelling", "type": "mutation", "description": "Writes colour where somebody has written color.",
		"hooks": []map[string]any{{"events": []string{"tools/call"}, "phase": "request"}},
	},
}

// serveMCP is an MCP server on two pipes that hosts interceptors and has no tools.
func serveMCP(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxBody)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.ID == nil {
			continue
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": m.ID}
		if result := handle(&m); result != nil {
			answer["result"] = result
		} else {
			answer["error"] = map[string]any{"code": -32601, "message": "Method not found"}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
	return lines.Err()
}

// handle returns the result of a request, nil for a method that the server does not know.
func handle(m *message) any {
	switch m.Method {
	case "initialize":
		return map[string]any{
			"protocolVersion": m.Params.ProtocolVersion,
			"capabilities":    map[string]any{},
			"serverInfo":      map[string]any{"name": "note-guard", "version": "1.0.0"},
		}
	case "ping":
		return struct{}{}
	case "interceptors/list":
		return map[string]any{"interceptors": hosted}
	case "interceptor/invoke":
		return invoke(m)
	}
	return nil
}

// invoke looks at one call.
func invoke(m *message) any {
	args, _ := m.Params.Payload.Params["arguments"].(map[string]any)
	text, _ := args["text"].(string)
	if m.Params.Name == "passwords" {
		if strings.Contains(text, "password") {
			return map[string]any{
				"valid": false, "severity": "error",
				"messages": []map[string]any{{"path": "params.arguments.text", "message": "notes are no place for passwords", "severity": "error"}},
			}
		}
		return map[string]any{"valid": true}
	}
	if !strings.Contains(text, "color") {
		return map[string]any{"modified": false}
	}
	args["text"] = strings.ReplaceAll(text, "color", "colour")
	return map[string]any{"modified": true, "payload": m.Params.Payload}
}
