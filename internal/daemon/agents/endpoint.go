package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/anthropic"
	"github.com/toolgate/toolgate/native/agents/model/openai"
)

// turnTime bounds one turn of a model. The time of its run bounds it as well.
const turnTime = 30 * time.Minute

// Endpoints are the clients of the endpoints of agents. A client is made with the first
// run of its agent and after each change of what reaches the endpoint. The zero value has
// none. It is safe for concurrent use.
type Endpoints struct {
	mu  sync.Mutex
	all map[string]endpoint
}

// endpoint is a client, and the settings that it was made of.
type endpoint struct {
	of     reached
	client model.Model
	http   *egress.Client
}

// reached are the settings that decide how an endpoint is reached.
type reached struct {
	url        string
	api        agents.API
	key        string
	allow      []string
	parameters string
}

// Model returns the client of an agent's endpoint. Models of runs that use another one
// stay usable.
func (e *Endpoints) Model(name string, s *agents.Settings) (model.Model, error) {
	of := reached{s.Endpoint, s.API, s.APIKey.Reveal(), s.AllowAddresses, string(s.Parameters)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if have, ok := e.all[name]; ok {
		if reflect.DeepEqual(have.of, of) {
			return have.client, nil
		}
		have.http.Close()
	}
	made, err := newEndpoint(&of)
	if err != nil {
		return nil, err
	}
	if e.all == nil {
		e.all = map[string]endpoint{}
	}
	e.all[name] = made
	return made.client, nil
}

func newEndpoint(of *reached) (endpoint, error) {
	policy, err := policyOf(of)
	if err != nil {
		return endpoint{}, err
	}
	guard, err := egress.New(policy)
	if err != nil {
		return endpoint{}, err
	}
	client := egress.NewClient(guard, egress.Limits{Timeout: turnTime, Body: model.MaxAnswer + 1, Many: true}, nil)
	made := endpoint{of: *of, http: client}
	at := &model.Endpoint{URL: of.url, Key: of.key, HTTP: client.Transport()} // see bounded
	if of.parameters != "" {
		if err := json.Unmarshal([]byte(of.parameters), &at.Parameters); err != nil {
			return endpoint{}, fmt.Errorf("parameters: %w", err)
		}
	}
	switch of.api {
	case agents.Responses:
		made.client, err = openai.NewResponses(at)
	case agents.Messages:
		made.client, err = anthropic.NewMessages(at)
	default:
		made.client, err = openai.NewChat(at)
	}
	made.client = bounded{made.client, turnTime}
	return made, err
}

// bounded is a model whose turns end in time.
type bounded struct {
	of    model.Model
	limit time.Duration
}

// Infer implements [model.Model].
func (b bounded) Infer(ctx context.Context, r *model.Request, delta func(model.Delta)) (*model.Turn, error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= b.limit {
		return b.of.Infer(ctx, r, delta) // its run ends before
	}
	late := model.Errorf(model.Timeout, "it took too long") // of this call alone: its client adds what it has cost so far
	within, stop := cancel.WithTimeoutCause(ctx, b.limit, late)
	defer stop()
	turn, err := b.of.Infer(within, r, delta)
	if _, ok := errors.AsType[*model.Error](err); err != nil && !ok && errors.Is(context.Cause(within), late) {
		return nil, late
	}
	return turn, err
}

// policyOf is what may be reached: the host of the URL, at addresses that it names itself
// or that the operator allows.
func policyOf(of *reached) (egress.Policy, error) {
	t, err := egress.ParseTemplate(of.url)
	if err != nil {
		return egress.Policy{}, err
	}
	policy := t.Policy()
	for _, text := range of.allow {
		p, err := netip.ParsePrefix(text)
		if a, is := netip.ParseAddr(text); is == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return egress.Policy{}, fmt.Errorf("allow_addresses: %w", err)
		}
		policy.Allow = append(policy.Allow, p)
	}
	return policy, nil
}
