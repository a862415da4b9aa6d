package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/toolapi"
)

// endTime is how much longer than its run a call may take.
const endTime = time.Minute

// Host runs agents for the caller of a context, and keeps their runs. An error that is a
// [toolapi.Problem] is for the caller; every other is internal. A run of somebody else
// looks like one that there is not.
type Host interface {
	// Start begins a run and works on it until it has ended or waits for its client.
	Start(ctx context.Context, call *toolapi.Call, agent string, t *Task) (*Outcome, error)
	// GoOn goes on with a run of the caller; of one agent alone where that is not empty. It
	// is given the outputs for which the run waits. Of a run that has ended, or that
	// somebody works on, it returns what is known.
	GoOn(ctx context.Context, call *toolapi.Call, agent, run string, outputs []Output) (*Outcome, error)
	// Cancel cancels a run of the caller.
	Cancel(ctx context.Context, agent, run string) (*Outcome, error)
}

// listed is what the tools of an agent say of it.
type listed struct {
	Name        string
	Description string
	Timeout     time.Duration
}

// toldOf is what the plugin is opened with.
type toldOf struct{ Agents []listed }

// Child implements [group.Settings]. What the tools say of the agents decides whether they
// are made anew; everything else is looked up for each run.
func (g *Group) Child(*group.Gateway) group.Child {
	list := []listed{}
	for name := range g.Agents {
		s := g.Agents[name]
		about := s.Description
		if about == "" {
			about = "An agent with the model " + s.Model + "."
		}
		list = append(list, listed{name, about, s.Timeout})
	}
	slices.SortFunc(list, func(a, b listed) int { return strings.Compare(a.Name, b.Name) })
	return group.Child{Inside: true, Config: toldOf{list}}
}

// Plugin returns the tools of agents, which a host runs.
func Plugin(h Host) *toolapi.Plugin {
	p := toolapi.New(ServerKey, "")
	p.Asks = true
	p.Init = func(config []byte) error {
		var of toldOf
		if err := json.Unmarshal(config, &of); err != nil {
			return fmt.Errorf("read the agents: %w", err)
		}
		add(p, h, of.Agents)
		return nil
	}
	return p
}

// add adds the tool that runs any agent, and one for each.
func add(p *toolapi.Plugin, h Host, list []listed) {
	names, about := []string{}, "Have an agent do a task: it works with tools, with your rights at most, until it has an answer. The agents are"
	longest := time.Duration(0)
	for i := range list {
		a := &list[i]
		names, longest = append(names, a.Name), max(longest, a.Timeout)
		about += fmt.Sprintf("\n- %s: %s", a.Name, a.Description)
		p.Add(tool(h, a.Name, nil, toolapi.Tool{
			Name: a.Name, Title: "Agent " + a.Name, Description: a.Description + " It does a task with tools, with your rights at most, until it has an answer.", Timeout: a.Timeout + endTime, Queue: true,
		}))
	}
	p.Add(tool(h, "", names, toolapi.Tool{Name: RunTool, Title: "Run an agent", Description: about, Timeout: longest + endTime, Queue: true}))
}

// properties are the arguments of all tools of agents.
const properties = `"task":{"type":"string","description":"what the agent has to do"},
"context":{"type":"string","description":"what the agent has to know for it"},
"tools":{"type":"array","maxItems":64,"description":"functions that you run yourself when the agent calls them","items":{"type":"object","properties":{"name":{"type":"string"},"description":{"type":"string"},"parameters":{"type":"object","description":"JSON Schema of the arguments"}},"required":["name"]}},
"tool_choice":{"type":"string","description":"auto, required, none, or the name of the tool that the agent has to call first"},
"allowed_tools":{"type":"array","items":{"type":"string"},"description":"the names of the only tools that the agent may call, of those that you may call"},
"max_turns":{"type":"integer","minimum":1,"description":"how often the model is asked, if that is less than the agent allows"},
"run":{"type":"string","description":"the id of an earlier run, to go on with it or to see what has become of it"},
"outputs":{"type":"array","maxItems":64,"description":"with run: what your functions gave","items":{"type":"object","properties":{"id":{"type":"string"},"output":{"type":"string"},"is_error":{"type":"boolean"}},"required":["id","output"]}},
"cancel":{"type":"boolean","description":"with run: cancel it"}`

// arguments are those of a call.
type arguments struct {
	Agent   string `json:"agent"`
	Task    string `json:"task"`
	Context string `json:"context"`
	Tools   []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"tools"`
	Choice   string   `json:"tool_choice"`
	Allowed  []string `json:"allowed_tools"`
	MaxTurns int      `json:"max_turns"`
	Run      string   `json:"run"`
	Outputs  []Output `json:"outputs"`
	Cancel   bool     `json:"cancel"`
}

// tool completes the tool of an agent, or of those that are named.
func tool(h Host, agent string, names []string, t toolapi.Tool) toolapi.Tool {
	input := `{"type":"object","properties":{` + properties
	if names != nil {
		enum, _ := json.Marshal(names)
		input += `,"agent":{"type":"string","enum":` + string(enum) + `,"description":"which agent"}`
	}
	t.Input, t.Output = json.RawMessage(input+`},"additionalProperties":false}`), json.RawMessage(outputSchema)
	t.Category, t.Risk, t.OpenWorld = ServerKey, toolapi.Medium, true
	t.Run = func(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
		var in arguments
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return toolapi.Result{}, toolapi.Problemf("The arguments do not fit the tool: %v.", err)
		}
		if agent != "" {
			in.Agent = agent
		}
		outcome, err := in.do(ctx, h, call, names)
		if err != nil {
			return toolapi.Result{}, err
		}
		return outcome.Result()
	}
	return t
}

// do does what a call asks for.
func (in *arguments) do(ctx context.Context, h Host, call *toolapi.Call, names []string) (*Outcome, error) {
	if in.Run != "" {
		switch {
		case in.Task != "" || in.Context != "" || len(in.Tools) > 0 || in.Allowed != nil || in.Choice != "":
			return nil, toolapi.Problemf("A run goes on as it was begun: with run, only outputs and cancel count.")
		case in.Cancel:
			return h.Cancel(ctx, in.Agent, in.Run)
		}
		return h.GoOn(ctx, call, in.Agent, in.Run, in.Outputs)
	}
	switch {
	case in.Cancel || len(in.Outputs) > 0:
		return nil, toolapi.Problemf("Say with run which run is meant.")
	case in.Agent == "" && len(names) == 1:
		in.Agent = names[0]
	case in.Agent == "":
		return nil, toolapi.Problemf("Say with agent which one is meant: %s.", strings.Join(names, ", "))
	}
	t := &Task{Task: in.Task, Context: in.Context, Choice: choiceOf(in.Choice), Allowed: in.Allowed, MaxTurns: in.MaxTurns}
	for _, f := range in.Tools {
		if string(f.Parameters) == "null" {
			f.Parameters = nil
		}
		t.Functions = append(t.Functions, model.Tool{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return h.Start(ctx, call, in.Agent, t)
}
