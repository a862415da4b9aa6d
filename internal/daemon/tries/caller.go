package tries

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// verbatim lists tools with the schemas that the gate checks.
var verbatim = proxy.Scope{Schemas: schemas.Verbatim}

// listTime bounds how long a list of tools may take.
const listTime = 15 * time.Second

// Caller makes calls by hand for one person. It implements [admin.Tries].
type Caller struct {
	s  *Service
	id *gate.Identity // nil for an operator of this machine
}

// Caller returns the calls of a person; nil is an operator of this machine, who makes calls
// as the caller whose key is named.
func (s *Service) Caller(id *gate.Identity) Caller { return Caller{s, id} }

// who returns the caller who is meant, and until when the credential is good.
func (c Caller) who(ctx context.Context, by admin.Trier) (*gate.Identity, time.Time, error) {
	switch {
	case by.Key == "" && c.id != nil:
		return c.id, by.Until, nil
	case by.Key == "" && c.s.o.Authenticated():
		return nil, time.Time{}, admin.ErrTryAs
	}
	id, until, err := c.s.o.Grant(ctx, by.Key)
	if err != nil {
		return nil, time.Time{}, errors.Join(admin.ErrTryAs, err)
	}
	return id, until, nil
}

// owner returns whose the calls of somebody are.
func (c Caller) owner(ctx context.Context, by admin.Trier) (owner, error) {
	id, _, err := c.who(ctx, by)
	if err != nil {
		return owner{}, err
	}
	return owner{id.Key(), by.Session}, nil
}

// listed returns the tools that a caller sees, as they are listed.
func (c Caller) listed(ctx context.Context, id *gate.Identity) (all [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	err = c.s.stream(id, nil, func(client *lineclient.Client) error {
		all, err = client.All(ctx, mcp.Tool)
		return err
	})
	return all, err
}

// TryTools implements [admin.Tries].
func (c Caller) TryTools(ctx context.Context, by admin.Trier) ([]admin.TryTool, error) {
	id, _, err := c.who(ctx, by)
	if err != nil {
		return nil, err
	}
	listed, err := c.listed(ctx, id)
	if err != nil {
		return nil, err
	}
	all := make([]admin.TryTool, 0, len(listed))
	for _, raw := range listed {
		all = append(all, toolOf(raw))
	}
	slices.SortFunc(all, func(a, b admin.TryTool) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// toolOf reads a tool, without its definition.
func toolOf(raw []byte) (t admin.TryTool) {
	t.Name, _ = mcp.LookupString(raw, "name")
	t.Title, _ = mcp.LookupString(raw, "title")
	t.Description, _ = mcp.LookupString(raw, "description")
	return t
}

// TryTool implements [admin.Tries].
func (c Caller) TryTool(ctx context.Context, by admin.Trier, name string) (admin.TryTool, error) {
	id, _, err := c.who(ctx, by)
	if err != nil {
		return admin.TryTool{}, err
	}
	return c.tool(ctx, id, name)
}

func (c Caller) tool(ctx context.Context, id *gate.Identity, name string) (admin.TryTool, error) {
	listed, err := c.listed(ctx, id)
	if err != nil {
		return admin.TryTool{}, err
	}
	for _, raw := range listed {
		if t := toolOf(raw); t.Name == name {
			t.Definition = slices.Clone(raw)
			return t, nil
		}
	}
	return admin.TryTool{}, admin.ErrNoTryTool
}

// Try implements [admin.Tries].
func (c Caller) Try(ctx context.Context, by admin.Trier, n admin.NewTry) (admin.Try, error) {
	id, until, err := c.who(ctx, by)
	if err != nil {
		return admin.Try{}, err
	}
	if len(n.Arguments) == 0 {
		n.Arguments = json.RawMessage(`{}`)
	}
	switch {
	case len(n.Arguments) > admin.MaxTryArguments:
		return admin.Try{}, admin.ErrTryLarge
	case mcp.Validate(n.Arguments, mcp.Limits{}) != nil || !mcp.IsObject(n.Arguments):
		return admin.Try{}, &admin.TryProblems{Problems: []admin.TryProblem{{Problem: "the arguments are not a JSON object", Fix: `write an object, such as {"name": "value"}`}}}
	}
	t, err := c.tool(ctx, id, n.Tool)
	if err != nil {
		return admin.Try{}, err
	}
	if !n.Unchecked {
		if problems := check(c.s.tools, mcp.Lookup(t.Definition, "inputSchema"), n.Arguments, ""); problems != nil {
			return admin.Try{}, problems
		}
	}
	n.Arguments = oneLine(n.Arguments)
	begun, err := c.s.begin(id, by, until, &n)
	if err != nil {
		return admin.Try{}, err
	}
	shown, _ := begun.shown()
	return shown, nil
}

// oneLine returns JSON without line breaks, which would end a message of the stream.
func oneLine(raw json.RawMessage) json.RawMessage {
	return mcp.AppendLine(nil, raw)
}

// check returns the problems of a value with a schema; nil for none. What the gate would
// not check is left to it.
func check(with *schema.Checker, of, value []byte, pointer string) error {
	result, _ := with.Check(of, value) // the error is a schema that cannot be checked
	if result == nil || result.Valid {
		return nil
	}
	out := &admin.TryProblems{More: result.More}
	for _, p := range result.Problems {
		out.Problems = append(out.Problems, admin.TryProblem{Pointer: pointer + p.Pointer, Problem: p.Problem, Fix: p.Fix})
	}
	return out
}

// Tried implements [admin.Tries].
func (c Caller) Tried(ctx context.Context, by admin.Trier) ([]admin.Try, error) {
	of, err := c.owner(ctx, by)
	if err != nil {
		return nil, err
	}
	all := []admin.Try{}
	for _, one := range c.s.of(of) {
		t, _ := one.shown()
		t.Messages, t.Questions, t.Arguments = nil, nil, nil
		all = append(all, t)
	}
	return all, nil
}

// TriedCall implements [admin.Tries].
func (c Caller) TriedCall(ctx context.Context, by admin.Trier, id string, revision int) (admin.Try, error) {
	of, err := c.owner(ctx, by)
	if err != nil {
		return admin.Try{}, err
	}
	one := c.s.find(of, id)
	if one == nil {
		return admin.Try{}, admin.ErrNoTry
	}
	for {
		t, changed := one.shown()
		if t.Revision != revision || t.State == admin.TryOver {
			return t, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return t, nil
		}
	}
}

// AnswerTry implements [admin.Tries].
func (c Caller) AnswerTry(ctx context.Context, by admin.Trier, id string, a admin.TryAnswer) error {
	of, err := c.owner(ctx, by)
	if err != nil {
		return err
	}
	one := c.s.find(of, id)
	if one == nil {
		return admin.ErrNoTry
	}
	t, _ := one.shown()
	if t.State != admin.TryAsks || t.Round != a.Round {
		return admin.ErrTryRound
	}
	said := make(map[string]json.RawMessage, len(t.Questions))
	problems := &admin.TryProblems{}
	for i := range t.Questions {
		q := &t.Questions[i]
		err := c.s.checkAnswer(q, a.Answers[q.Key])
		if p, ok := errors.AsType[*admin.TryProblems](err); ok {
			problems.Problems = append(problems.Problems, p.Problems...)
			problems.More += p.More
		} else if err != nil {
			return err
		}
		said[q.Key] = oneLine(a.Answers[q.Key])
	}
	if len(problems.Problems) > 0 {
		return problems
	}
	return one.answered(a.Round, said)
}

// checkAnswer checks one answer against its question.
func (s *Service) checkAnswer(q *admin.TryQuestion, answer json.RawMessage) error {
	at := "/" + mcp.PointerToken(q.Key)
	wrong := func(text, fix string) error {
		return &admin.TryProblems{Problems: []admin.TryProblem{{Pointer: at, Problem: text, Fix: fix}}}
	}
	switch {
	case len(answer) > admin.MaxTryArguments:
		return admin.ErrTryLarge
	case len(answer) == 0:
		return wrong("there is no answer", "accept, decline or cancel")
	case mcp.Validate(answer, mcp.Limits{}) != nil || !mcp.IsObject(answer):
		return wrong("the answer is not a JSON object", "")
	}
	switch action, _ := mcp.LookupString(answer, "action"); action {
	case "decline", "cancel":
		return nil
	case "accept":
	default:
		return wrong("the answer has no action", "accept, decline or cancel")
	}
	if mode, _ := mcp.LookupString(q.Params, "mode"); mode == "url" {
		return nil
	}
	return check(s.answers, mcp.Lookup(q.Params, "requestedSchema"), mcp.Lookup(answer, "content"), at)
}

// CancelTry implements [admin.Tries].
func (c Caller) CancelTry(ctx context.Context, by admin.Trier, id string) error {
	of, err := c.owner(ctx, by)
	if err != nil {
		return err
	}
	one := c.s.find(of, id)
	if one == nil {
		return admin.ErrNoTry
	}
	one.cancel(errCancelled)
	return nil
}

// EndTries implements [admin.Tries].
func (c Caller) EndTries(by admin.Trier) { c.s.end(by.Session) }
