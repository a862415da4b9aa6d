package registered

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Templates implements [enable.Tools]. If the gate cannot decide at the moment, the result
// is an error, never a shorter list.
func (t *Tools) Templates(ctx context.Context) ([]enable.ToolTemplate, error) {
	templates := Templates(t.o.InForce())
	var out []enable.ToolTemplate
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		template := templates[name]
		d := t.decide(ctx, about(template))
		if d.Err != nil {
			return nil, d.Err
		}
		if permits(d) {
			takes := template.InputSchema
			if len(takes) == 0 {
				takes = json.RawMessage(`{"type":"object"}`)
			}
			out = append(out, enable.ToolTemplate{Name: name, Description: template.Description, InputSchema: takes})
		}
	}
	return out, nil
}

// decide asks the gate about a request of the caller of a context.
func (t *Tools) decide(ctx context.Context, q gate.Request) gate.Decision {
	id, capsule := gate.CallerOf(ctx)
	if id == nil {
		return gate.Decision{Phase: "caller", Reason: "the caller is not known"}
	}
	q.Identity, q.Capsule = id, capsule
	return t.chain.Load().Decide(ctx, &q)
}

// permits tells whether a decision lets a tool be registered: no phase may deny it.
func permits(d gate.Decision) bool {
	return d.Err == nil && (d.Effect == gate.Allow || d.Phase == "")
}

// about returns the request to make tools of a template, whatever they are.
func about(template *declared.Settings) gate.Request {
	return enabling(template.Namespace, template.Name, nil)
}

// enabling returns the request for the action tool.enable with a name, and with the
// arguments of register_tool.
func enabling(namespace, name string, args []byte) gate.Request {
	q := gate.Request{Action: gate.Enable, Args: args}
	q.Kind, q.Server, q.Original, q.Exposed = mcp.Tool, namespace, name, build.NameOf(namespace)+name
	return q
}

// Registered implements [enable.Tools].
func (t *Tools) Registered(_ context.Context, principal string) ([]enable.Registered, error) {
	var out []enable.Registered
	for _, one := range t.tools() {
		if one.record.Owner.Principal == principal {
			out = append(out, one.describe())
		}
	}
	return out, nil
}

func (one *tool) describe() enable.Registered {
	return enable.Registered{
		Tool: one.record.Name, Name: strings.TrimPrefix(one.record.Name, build.NameOf(Namespace(one.record.Owner.Principal))), Template: one.record.Template,
		Served: one.problem == "", Reason: one.problem,
	}
}

// examine checks a registration without storing it. An [toolapi.Problem] is for the
// caller.
func (t *Tools) examine(principal string, r *enable.Registration) (*registration, error) {
	who, ok := gate.ParsePrincipal(principal)
	if !ok {
		return nil, errors.New("register a tool: the caller has no principal")
	}
	c := t.o.InForce()
	template := Templates(c)[r.Template]
	if template == nil {
		return nil, enable.UnknownTemplate(r.Template)
	}
	settings, err := template.Derive(Namespace(principal), &declared.Definition{Name: r.Name, Description: r.Description, Input: r.InputSchema})
	if _, is := errors.AsType[*declared.Misfit](err); is {
		return nil, toolapi.Problem(err.Error() + ".")
	}
	if err != nil {
		return nil, err
	}
	for _, one := range t.tools() {
		if owner := one.record.Owner.Principal; owner != principal && Namespace(owner) == settings.Namespace {
			return nil, toolapi.Problem(fmt.Sprintf("The tool cannot be served: %v.", errOthersNamespace))
		}
	}
	if err := build.CheckSchema(r.InputSchema); err != nil {
		return nil, toolapi.Problem(fmt.Sprintf("input_schema: %v.", err))
	}
	if err := t.fits(c, &settings); err != nil {
		return nil, toolapi.Problem(fmt.Sprintf("The tool cannot be served: %v.", err))
	}
	if err := t.withinLimit(c, principal, tools.Name(&settings)); err != nil {
		return nil, err
	}
	pin, err := template.Pin()
	if err != nil {
		return nil, err
	}
	return &registration{
		Tenant: who.Tenant, Principal: []byte(principal), Name: r.Name, Description: r.Description, InputSchema: r.InputSchema,
		Template: r.Template, Pin: pin,
	}, nil
}

// fits tells why a tool cannot be served beside all others.
func (t *Tools) fits(c *config.Config, settings *declared.Settings) error {
	name, beside := tools.Name(settings), *c
	beside.Toolgate.Tools = slices.DeleteFunc(slices.Clone(c.Toolgate.Tools), func(other declared.Settings) bool {
		return tools.Name(&other) == name || other.Of != "" && other.Namespace != settings.Namespace // see [room] for their number
	})
	return tools.FitBeside(&beside, []declared.Settings{*settings}, t.o.Off(&beside))
}

// withinLimit refuses one tool too many of a principal, before anybody is asked about it,
// and one for which there is no room. The store holds the limit whatever happens in between.
func (t *Tools) withinLimit(c *config.Config, principal, name string) error {
	has := map[string]int{}
	for _, one := range t.tools() {
		if one.record.Name != name {
			has[one.record.Owner.Principal]++
		}
	}
	if has[principal] >= c.Toolgate.Limits.AddedPerPrincipal {
		return errTooMany
	}
	turn, before := has[principal]+1, 0 // of the new tool among those of its owner
	for _, n := range has {
		before += min(n, turn)
	}
	if before >= room(c) {
		return toolapi.Problem(fmt.Sprintf("The tool cannot be served: %v.", errNoRoom))
	}
	return nil
}

var (
	errTooMany = toolapi.Problem("You have registered as many tools as you may; remove one with remove_tool first.")
	errTaken   = toolapi.Problem("name: it is taken; choose another one.")
)

// Register implements [enable.Tools].
func (t *Tools) Register(ctx context.Context, principal string, r *enable.Registration) (enable.Registered, error) {
	template := Templates(t.o.InForce())[r.Template]
	if template == nil {
		return enable.Registered{}, enable.UnknownTemplate(r.Template)
	}
	for _, q := range []gate.Request{about(template), enabling(Namespace(principal), r.Name, r.Args)} {
		switch d := t.decide(ctx, q); {
		case d.Err != nil:
			return enable.Registered{}, d.Err
		case !permits(d):
			return enable.Registered{}, enable.UnknownTemplate(r.Template)
		}
	}
	of, err := t.examine(principal, r)
	if err != nil {
		return enable.Registered{}, err
	}
	body, err := json.Marshal(of)
	if err != nil {
		return enable.Registered{}, fmt.Errorf("register the tool %s: %w", r.Name, err)
	}
	name := build.NameOf(Namespace(principal)) + r.Name
	sealed, err := t.o.Keys.Seal(purpose, name, body)
	if err != nil {
		return enable.Registered{}, fmt.Errorf("register the tool %s: %w", r.Name, err)
	}
	who, _ := gate.ParsePrincipal(principal)
	caller, _ := gate.CallerOf(ctx) // known, or the gate would have denied it
	err = t.o.Store.Put(ctx, &store.DynamicTool{
		Name: name, Owner: store.Owner{Tenant: of.Tenant, Principal: principal}, Persona: caller.Persona, Template: r.Template, Body: []byte(sealed),
		Change: store.Change{Actor: approval.Name(&gate.Identity{Principal: who}), Reason: enable.Register},
	}, t.o.InForce().Toolgate.Limits.AddedPerPrincipal)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return enable.Registered{}, errTooMany
	case errors.Is(err, store.ErrTaken):
		return enable.Registered{}, errTaken
	case err != nil:
		return enable.Registered{}, err
	}
	if err := t.rows.Apply(ctx); err != nil {
		return enable.Registered{}, err
	}
	t.o.Settle(ctx) // so that the next list includes it
	for _, one := range t.tools() {
		if one.record.Name == name {
			return one.describe(), nil
		}
	}
	return enable.Registered{}, toolapi.Problem("The tool was removed while it was registered.")
}

// RemoveTool implements [enable.Tools].
func (t *Tools) RemoveTool(ctx context.Context, principal, name string) error {
	who, _ := gate.ParsePrincipal(principal)
	ok, err := t.o.Store.RemoveOwn(ctx, build.NameOf(Namespace(principal))+name, store.Owner{Tenant: who.Tenant, Principal: principal})
	if err != nil {
		return err
	}
	if !ok {
		return toolapi.Problem("You have registered no tool of this name; find_templates lists those that you have.")
	}
	return t.rows.Apply(ctx)
}
