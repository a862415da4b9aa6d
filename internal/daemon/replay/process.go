package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/admin"
)

// argument is the argument of a process that evaluates a policy.
const argument = "policy-replay-process"

const (
	// maxStack bounds the stack of a goroutine. Policies that nest deeply end the process
	// before they use up its memory.
	maxStack = 64 << 20
	// maxReason bounds a reason, in bytes, and maxProblem what is said of a problem.
	maxReason, maxProblem = 300, 1000
	// maxProblems bounds the problems of an answer.
	maxProblems = 50
	// maxAnswer bounds one line of the process.
	maxAnswer = 256 << 10
)

// policyMessage is the first message to the process: all that the policy is made of.
type policyMessage struct {
	Decision    string            `json:"decision"`
	RegoVersion opa.RegoVersion   `json:"rego_version"`
	Actions     map[string]string `json:"actions"`
	PolicyInput int64             `json:"policy_input"` // bytes
	Files       []opa.File        `json:"files"`
	Data        opa.Data          `json:"data"`
}

// readyMessage is the answer to that. The calls follow, one a line, to the end of the input.
type readyMessage struct {
	Problems  []admin.PolicyProblem `json:"problems,omitempty"`
	Arguments bool                  `json:"arguments"` // it reads them
}

// callMessage is one call. The answers are a [Verdict] each, in the order of the calls.
type callMessage struct {
	Question
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// init enters the process before the rest of the program is set up.
func init() {
	if len(os.Args) != 2 || os.Args[1] != argument {
		return
	}
	runtime.GOMAXPROCS(1)
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(memory * 3 / 4)
	debug.SetTraceback("single")
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// serve evaluates one policy.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	messages, answers := json.NewDecoder(bufio.NewReaderSize(in, 64<<10)), json.NewEncoder(out)
	var of policyMessage
	if err := messages.Decode(&of); err != nil {
		return err
	}
	policy, err := of.load(ctx)
	if err != nil {
		return answers.Encode(readyMessage{Problems: problemsOf(err)})
	}
	if err := answers.Encode(readyMessage{Arguments: policy.ReadsArguments() && !policy.ReadsUnrecorded()}); err != nil {
		return err
	}
	decider := NewDecider(policy)
	var verdicts []Verdict
	for {
		var c callMessage
		err := messages.Decode(&c)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		v := decider.Decide(ctx, &c.Question, func() ([]byte, error) {
			if c.Arguments == nil {
				return nil, errors.New("they were not recorded")
			}
			return c.Arguments, nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.Reason = shortened(v.Reason, maxReason)
		verdicts = append(verdicts, v)
	}
	// The other side reads when it has written everything.
	written := bufio.NewWriter(out)
	answers = json.NewEncoder(written)
	for i := range verdicts {
		if err := answers.Encode(&verdicts[i]); err != nil {
			return err
		}
	}
	return written.Flush()
}

// load makes the policy. Where it does not take flags and restrictions of the catalog,
// because it has rules of these names, it sees the rules, as in the gateway.
func (m *policyMessage) load(ctx context.Context) (*opa.Phase, error) {
	policy, err := opa.New(ctx, opa.Options{
		Settings: opa.Settings{Decision: m.Decision, RegoVersion: m.RegoVersion, Actions: m.Actions},
		Files:    m.Files, InputLimits: opa.InputLimits{PolicyInput: units.Size(m.PolicyInput)},
	})
	if err != nil {
		return nil, err
	}
	if err = policy.SetData(m.Data); err != nil {
		m.Data.TenantToolFlags, m.Data.PersonaToolDeny, m.Data.Tools = nil, nil, nil
		err = policy.SetData(m.Data)
	}
	return policy, err
}

// problemsOf takes an error of a policy apart.
func problemsOf(err error) []admin.PolicyProblem {
	all := opa.Problems(err)
	list := make([]admin.PolicyProblem, 0, min(len(all), maxProblems))
	for _, p := range all[:min(len(all), maxProblems)] {
		list = append(list, admin.PolicyProblem{File: p.File, Line: p.Line, Text: shortened(p.Text, maxProblem)})
	}
	return list
}

// shortened returns at most so many bytes of a text, as UTF-8.
func shortened(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// replayTime bounds the evaluation of one replay.
const replayTime = 10 * time.Second
