package code

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/toolapi"
)

const category = "code"

// slack is how much longer a call may take than its run.
const slack = 15 * time.Second

func (s *service) tools() []toolapi.Tool {
	c := &s.config
	changes := len(c.Write) > 0 || c.Sandbox == sandbox.Off
	runs := "The answer has its exit code and what it printed. "
	caveat := c.caveat()
	if caveat != "" {
		runs += caveat + " "
	}
	if caveat == "" || c.Container.Runtime != "" {
		caveat = "It has no network."
	}
	tools := []toolapi.Tool{
		{
			Name: "execute", Title: "Run Python", Category: category, Risk: toolapi.High,
			Description: fmt.Sprintf("Run a Python 3 program for at most %v and return what it prints and its exit code. It has the standard library alone, and a private folder that is removed afterwards. %s", c.Timeout, caveat),
			Input:       json.RawMessage(executeInput), Output: json.RawMessage(runOutput),
			Destructive: true, Timeout: c.Timeout + slack, RatePerHour: 300, Queue: c.Queue, Run: s.execute,
		},
		{
			Name: "run_linter", Title: "Run a linter", Category: category, Risk: toolapi.Medium,
			Description: "Run a configured linter on a file or folder, by its absolute path. " + runs + known("Linters", c.Linters),
			Input:       json.RawMessage(commandInput), Output: json.RawMessage(runOutput),
			Destructive: changes, Idempotent: !changes, Timeout: c.Timeout + slack, RatePerHour: 600, Queue: c.Queue, Run: s.command("linter", c.Linters),
		},
		{
			Name: "run_tests", Title: "Run tests", Category: category, Risk: toolapi.Medium,
			Description: "Run configured tests in a folder, by its absolute path. " + runs + known("Tests", c.Tests),
			Input:       json.RawMessage(commandInput), Output: json.RawMessage(runOutput),
			Destructive: changes, Timeout: c.Timeout + slack, RatePerHour: 300, Queue: c.Queue, Run: s.command("set of tests", c.Tests),
		},
		{
			Name: "git_status", Title: "Status of a git repository", Category: category, Risk: toolapi.Low,
			Description: "Tell the branch of a repository and what has changed in a folder of it, by its absolute path. Nothing of the repository's own configuration takes effect.",
			Input:       json.RawMessage(gitInput), Output: json.RawMessage(gitOutput),
			ReadOnly: true, Idempotent: true, Timeout: gitTimeout + slack, RatePerHour: 1200, Run: s.gitStatus,
		},
	}
	if len(c.Roots) == 0 || sandbox.Refusal(c.policy()) != nil {
		return tools[:1] // the others have no folder to work in, or no sandbox; execute may use a container
	}
	return tools
}

// caveat returns a warning for readers of a tool's description when its runs are not
// fully confined; empty otherwise.
func (c *Config) caveat() string {
	if c.Sandbox == sandbox.Off {
		return "It is not confined: it can do on this machine what the gateway can."
	}
	layers, err := sandbox.Available(c.policy())
	if err != nil {
		return ""
	}
	return layers.Caveat()
}

// known lists the configured names.
func known(what string, commands map[string]Command) string {
	if len(commands) == 0 {
		return what + ": none is configured."
	}
	return what + ": " + strings.Join(slices.Sorted(maps.Keys(commands)), ", ") + "."
}

// The schemas of the tools' arguments and results (JSON Schema 2020-12).
const (
	dialect = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,`
	path    = `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute path, without \"..\" and without a last slash"}`

	executeInput = dialect + `"required":["code"],"properties":{` +
		`"code":{"type":"string","minLength":1,"maxLength":262144,"description":"The program, Python 3; what it prints is returned"},` +
		`"language":{"type":"string","enum":["python"],"description":"The language of the program"},` +
		`"timeout":{"type":"integer","minimum":1,"maximum":86400,"description":"End it after this many seconds, if that is less than is allowed"},` +
		`"timeout_seconds":{"type":"integer","minimum":1,"maximum":86400,"description":"The same as timeout"}}}`
	commandInput = dialect + `"required":["name","path"],"properties":{` +
		`"name":{"type":"string","minLength":1,"maxLength":128,"description":"Which of those that are configured"},` + path + `}}`
	runOutput = dialect + `"required":["exit_code","stdout","stderr","duration_ms"],"properties":{` +
		`"exit_code":{"type":"integer","description":"-1 where it was ended"},"stdout":{"type":"string"},"stderr":{"type":"string"},` +
		`"timed_out":{"type":"boolean"},"cut":{"type":"boolean","description":"It printed more than is here"},` +
		`"duration_ms":{"type":"integer","minimum":0},"ended_by":{"type":"string","description":"What ended it, where it did not end by itself"}}}`

	gitInput  = dialect + `"required":["path"],"properties":{` + path + `}}`
	gitOutput = dialect + `"required":["repository","branch","commit","changes"],"properties":{` +
		`"repository":{"type":"string"},"branch":{"type":"string","description":"Empty where none is checked out"},` +
		`"commit":{"type":"string","description":"Empty before the first"},` +
		`"changes":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["path","status"],"properties":{` +
		`"path":{"type":"string","description":"From the repository on"},"status":{"type":"string","description":"As in git status --porcelain: index and folder"},"from":{"type":"string"}}}},` +
		`"cut":{"type":"boolean","description":"There are more changes than are here"}}}`
)
