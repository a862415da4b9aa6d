// Package fakeserver is the MCP server that the tests of toolgate put behind a gateway: a
// legacy stdio server with a few tools.
//
// A program that imports it becomes that server when its first argument is [Command]. The
// server starts in package initialisation. Among the packages whose imports are
// initialised, Go initialises the one with the smallest path first, and this one imports
// little. So a server starts in a fraction of the time that the whole test program takes.
package fakeserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Command makes a program that imports this package the server.
const Command = "fake-server"

func init() {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(run(os.Args[2:]))
	}
}

// Tools are listed unless "tools=" sets the number of generated ones. The order is not
// sorted, and the schema contains what a gateway must not change.
var Tools = []string{
	`{"name":"slow","description":"Wait for a file","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`,
	`{"name":"pid","description":"Tell the process id","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
	`{ "name": "echo", "x-own": 9007199254740993, "inputSchema": {"type":"object"} }`,
	`{"name":"fail","inputSchema":{"type":"object"}}`,
	`{"name":"fault","inputSchema":{"type":"object"}}`,
	`{"name":"picture","inputSchema":{"type":"object"}}`,
}

type server struct {
	mu     sync.Mutex
	tools  []string
	says   string            // instructions
	varies bool              // lists by what its client declared
	tasks  string            // file for the ids of cancelled tasks; empty makes no tasks
	asks   string            // schema of what the tool ask asks for
	asking string            // id of the call of the tool ask that waits for an answer
	gone   map[string]string // files that are written when calls are cancelled, by the id of the call
}

// run serves on stdin and stdout. Its arguments change it: "hang" never answers;
// "broken=FILE" exits at once while the file exists; "alone=FILE" writes
// FILE.twice if another server with the same FILE runs; "tools=N" lists N tools; "name=NAME"
// adds one; "long=N" adds one with a name of N characters; "child=FILE" starts a process
// and writes its id; "varies" lists one more tool to a client that declares elicitation;
// "tasks=FILE" turns calls into tasks that do not end, and writes the file when one is
// cancelled; "says=TEXT" sets its instructions; "echo=TEXT" sets the description of the
// tool echo, "schema=JSON" its input schema; "asks=JSON" adds the tool ask, which asks its client for a
// form of that schema and returns the answer. Any other argument only distinguishes two servers.
func run(args []string) int {
	s := &server{tools: Tools}
	hang := false
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "hang":
			hang = true
		case "broken":
			if _, err := os.Stat(value); err == nil {
				fmt.Fprintln(os.Stderr, "the server is broken")
				return 1
			}
		case "alone":
			if !lock(value) {
				_ = os.WriteFile(value+".twice", nil, 0o600)
			}
		case "tools":
			s.tools = nil
			for i := range n {
				s.tools = append(s.tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
			}
		case "name":
			quoted, _ := json.Marshal(value)
			s.tools = append(s.tools, fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quoted))
		case "long":
			s.tools = append(s.tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, strings.Repeat("l", n)))
		case "varies":
			s.varies = true
		case "says":
			s.says = value
		case "tasks":
			s.tasks = value
			s.tools = append(s.tools, `{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`)
		case "echo":
			s.tools = slices.Clone(Tools)
			for i, tool := range s.tools {
				s.tools[i] = strings.Replace(tool, `"name": "echo"`, fmt.Sprintf(`"name": "echo", "description": %q`, value), 1)
			}
		case "schema":
			s.tools = slices.Clone(Tools)
			for i, tool := range s.tools {
				s.tools[i] = strings.Replace(tool, `"name": "echo", "x-own": 9007199254740993, "inputSchema": {"type":"object"}`, `"name": "echo", "inputSchema": `+value, 1)
			}
		case "asks":
			s.asks = value
			s.tools = append(slices.Clone(s.tools), `{"name":"ask","inputSchema":{"type":"object"}}`)
		case "child":
			//nolint:noctx // it ends when this process does, which closes its input
			child := exec.Command(os.Args[0], Command, "hang")
			if _, err := child.StdinPipe(); err != nil { // not closed before this process ends
				return 1
			}
			if err := child.Start(); err != nil {
				return 1
			}
			if err := os.WriteFile(value, []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil {
				return 1
			}
		}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if !hang {
			go s.handle(line)
		}
	}
}

func (s *server) handle(line []byte) {
	var r struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Name            string
			RequestID       json.RawMessage
			Capabilities    struct{ Elicitation json.RawMessage }
			Arguments       struct {
				File string // written when the call begins
				Wait string // the call ends when this file exists
				Gone string // written when the call is cancelled
			}
		}
	}
	if json.Unmarshal(line, &r) != nil {
		return
	}
	if r.Method == "notifications/cancelled" {
		s.cancelled(r.Params.RequestID)
	}
	if r.ID == nil {
		return
	}
	if r.Method == "" && string(r.ID) == askID {
		s.answered(line)
		return
	}
	text := func(s string) string {
		quoted, _ := json.Marshal(s)
		return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted)
	}
	result := ""
	switch r.Method {
	case "initialize":
		s.mu.Lock()
		if s.varies && r.Params.Capabilities.Elicitation != nil {
			s.tools = append(slices.Clone(s.tools), `{"name":"confirm","inputSchema":{"type":"object"}}`)
		}
		s.mu.Unlock()
		tasks := ""
		if s.tasks != "" {
			tasks = `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
		}
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}%s},"serverInfo":{"name":"fake","version":"1"},"instructions":%q}`, r.Params.ProtocolVersion, tasks, s.says)
	case "tools/list":
		s.mu.Lock()
		result = `{"tools":[` + strings.Join(s.tools, ",") + `]}`
		s.mu.Unlock()
	case "tasks/cancel":
		_ = os.WriteFile(s.tasks, nil, 0o600)
		result = `{"taskId":"1","status":"cancelled"}`
	case "ping":
		result = `{}`
	case "tools/call":
		switch r.Params.Name {
		case "pid":
			result = text(strconv.Itoa(os.Getpid()))
		case "echo":
			var whole struct {
				Params struct{ Arguments json.RawMessage }
			}
			_ = json.Unmarshal(line, &whole) // parsed above
			result = text(string(whole.Params.Arguments))
		case "slow":
			s.wait(r.ID, r.Params.Arguments.File, r.Params.Arguments.Wait, r.Params.Arguments.Gone)
			result = text("waited")
		case "job":
			result = `{"task":{"taskId":"1","status":"working","createdAt":"2026-01-01T00:00:00Z","ttl":null}}`
		case "ask":
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asking = string(r.ID)
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"What?","requestedSchema":%s}}`+"\n", askID, s.asks)
			return
		case "fail":
			result = `{"content":[{"type":"text","text":"it did not work"}],"isError":true}`
		case "picture":
			result = `{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}`
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if result == "" {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not here"}}`+"\n", r.ID)
		return
	}
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, result)
}

// wait writes a file and waits for another one. It writes gone when the call is cancelled.
func (s *server) wait(id json.RawMessage, begun, until, gone string) {
	s.mu.Lock()
	if s.gone == nil {
		s.gone = make(map[string]string)
	}
	s.gone[string(id)] = gone
	s.mu.Unlock()
	_ = os.WriteFile(begun, nil, 0o600)
	for _, err := os.Stat(until); err != nil; _, err = os.Stat(until) {
		<-time.After(10 * time.Millisecond)
	}
}

// cancelled writes the file of a call that waits, if it has one.
func (s *server) cancelled(id json.RawMessage) {
	s.mu.Lock()
	file := s.gone[string(id)]
	s.mu.Unlock()
	if file != "" {
		_ = os.WriteFile(file, nil, 0o600)
	}
}

// askID is the id of the request by which the tool ask asks.
const askID = `"ask"`

// answered ends the call of the tool ask with what its client has answered.
func (s *server) answered(line []byte) {
	var answer struct{ Result json.RawMessage }
	if json.Unmarshal(line, &answer) != nil {
		return
	}
	quoted, _ := json.Marshal(string(answer.Result))
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`+"\n", s.asking, quoted)
}
