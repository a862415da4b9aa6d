package agents

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/toolapi"
)

// ServerKey is the key of the server that has the tools of all agents.
const ServerKey = "agent"

// RunTool is the tool that runs any agent. No agent can have its name.
const RunTool = "run"

// API is a wire format of an endpoint.
type API string

// The formats.
const (
	Chat      = API(model.Chat)
	Responses = API(model.Responses)
	Messages  = API(model.Messages)
)

// Settings are one agent.
type Settings struct {
	// URL of the model's API, such as https://api.openai.com/v1 or https://api.anthropic.com. Required.
	Endpoint string `config:"endpoint" required:"true" format:"url"`
	// Format of the API: chat is OpenAI's /chat/completions, responses its /responses, and messages Anthropic's
	// /v1/messages. Default: chat.
	API API `config:"api" default:"chat" enum:"chat|responses|messages"`
	// Name of the model at the endpoint. Required.
	Model string `config:"model" required:"true"`
	// Key of the API. Default: none.
	APIKey secret.Text `config:"api_key"`
	// Private or special address ranges in which the host may be. Default: those that the URL itself names.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`
	// Members of each request to the model, besides those that the gateway writes: temperature, top_p, reasoning_effort and
	// whatever else the endpoint takes. Default: none.
	Parameters json.RawMessage `config:"parameters" format:"object"`
	// What the model is told before each task. Default: nothing.
	Instructions string `config:"instructions"`
	// What callers are told of the agent, in the description of its tool. Default: its name and model.
	Description string `config:"description"`
	// Capsule that every call of the agent must be allowed by, in addition to what its caller may do. Default: none; the
	// agent may call what its caller may.
	Capsule string `config:"capsule"`
	// How often the model is asked in one run. Default: 20.
	MaxTurns int `config:"max_turns" default:"20" min:"1" max:"1000"`
	// How long a run may take. Default: 10m.
	Timeout time.Duration `config:"timeout" default:"10m" min:"1s" max:"24h"`
	// Tokens of one answer of the model. Default: 4096.
	MaxTokens int `config:"max_tokens" default:"4096" min:"1" max:"1000000"`
	// Tokens of one run, input and output of all turns together. Default: no limit.
	RunTokens int64 `config:"run_tokens" min:"1" max:"1000000000000"`
	// Tokens that the model can read at once. Older results of tools are left out when a run needs more. Default: 128000.
	Context int `config:"context" default:"128000" min:"1000" max:"100000000"`
	// What the model costs, for budgets. Default: nothing.
	Prices Prices `config:"prices"`
	// What the agent may use for all callers together, in the form of a plan. Default: no limit.
	Budget *budget.PlanSettings `config:"budget"`
}

// Prices are those of a model.
type Prices struct {
	// Cost units for a million tokens that the model reads. Default: 0.
	Input int64 `config:"input" min:"0" max:"1000000000000"`
	// Cost units for a million tokens that the model writes. Default: 0.
	Output int64 `config:"output" min:"0" max:"1000000000000"`
}

// Cost returns the cost units of some tokens, rounded up.
func (p *Prices) Cost(input, output int64) int64 {
	const million = 1_000_000
	whole := input/million*p.Input + output/million*p.Output
	rest := input%million*p.Input + output%million*p.Output
	return whole + (rest+million-1)/million
}

// Group is the settings of the server that has the tools of agents.
type Group struct {
	group.Inside
	Agents map[string]Settings
}

// CheckName reports a name that no agent can have.
func CheckName(p *tree.Problems, f tree.Field, path, name string) {
	switch {
	case name == RunTool:
		p.AtField(f, path, "write another one", "%s is the tool that runs any agent", RunTool)
	case !toolapi.ValidName(name):
		p.AtField(f, path, "write 1 to 45 of A-Z, a-z, 0-9, _ and -", "%q cannot be the name of a tool", name)
	}
}

// Check implements [decode.Checker].
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case s.Endpoint == "": // which the decoder has reported
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		p.At(n.Get("endpoint"), path+".endpoint", "write it as https://HOST/v1", "the URL has more, or less, than a host and a path")
	case s.APIKey != "" && u.Scheme == "http" && !loopback.Host(u.Hostname()) && len(s.AllowAddresses) == 0:
		p.At(n.Get("endpoint"), path+".endpoint", "write https://, or allow_addresses if the host is in a network of yours", "the key would be sent in the clear")
	}
	if strings.ContainsFunc(s.APIKey.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.At(n.Get("api_key"), path+".api_key", "remove spaces, line breaks and the like", "the key has characters that no header may have")
	}
	s.checkParameters(p, n.Get("parameters"), path+".parameters")
	if s.Context > 0 && s.MaxTokens >= s.Context {
		p.At(n.Get("max_tokens"), path+".max_tokens", "write less than context", "an answer of %d tokens leaves nothing of a context of %d", s.MaxTokens, s.Context)
	}
	if s.RunTokens > 0 && s.RunTokens <= int64(s.MaxTokens) {
		p.At(n.Get("run_tokens"), path+".run_tokens", "write more than max_tokens", "the first answer alone may have %d tokens", s.MaxTokens)
	}
}

// checkParameters reports parameters that no request may have.
func (s *Settings) checkParameters(p *tree.Problems, n *tree.Node, path string) {
	if len(s.Parameters) == 0 {
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(s.Parameters, &members); err != nil {
		p.At(n, path, "write an object", "the parameters cannot be read: %v", err)
		return
	}
	name, err := model.CheckParameters(model.Format(s.API), members)
	switch {
	case err != nil && name == "":
		p.At(n, path, "remove some", "%v", err)
	case err != nil:
		p.At(n.Get(name), path+"."+name, ownSetting(name), "%v", err)
	}
}

// ownSetting is what to write in place of a parameter that the gateway writes.
func ownSetting(name string) string {
	switch strings.ToLower(name) {
	case "model", "max_tokens", "instructions":
		return "write " + strings.ToLower(name) + " of the agent"
	case "max_completion_tokens", "max_output_tokens":
		return "write max_tokens of the agent"
	case "system":
		return "write instructions of the agent"
	}
	return "remove it"
}
