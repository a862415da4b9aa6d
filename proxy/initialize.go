package proxy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/limit"
)

// initialize answers the initialize request of a legacy client and makes its session
// ready (2025-11-25 basic/lifecycle).
func (g *Gateway) initialize(s *Session, who *gate.Identity, msg *mcp.Message) (answer response) {
	began := time.Now()
	defer func() { g.opts.Metrics.served(mcp.MethodInitialize, s.transport, began, answer.fault != nil) }()
	if fault := checkInitialize(msg); fault != nil {
		return errorResponse(fault)
	}
	asked, _ := msg.ParamString("protocolVersion")
	capabilities := msg.Param("capabilities")
	version := mcp.NegotiateLegacy(mcp.Version(asked))
	features := featuresIn(capabilities)
	if g.first.Required() {
		g.first.For(s.ctx, s.scope.Server, false)
	}
	snap := g.snapshot.Load()
	servers, decided := snap.describedServers(s.ctx, who, s.scope, features)
	connected(servers, s.principal, capabilities)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return errorResponse(mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: the session is initialized already"))
	}
	s.version, s.ready = version, true
	// Copies, because msg shares the memory of the whole request.
	s.capabilities, s.features = append([]byte(nil), capabilities...), features
	s.clientInfo = append([]byte(nil), msg.Param("clientInfo")...)

	out := []byte(`{"protocolVersion":"` + string(version) + `","capabilities":`)
	out = append(out, g.capabilities(servers, decided, version, s.scope)...)
	out = append(out, `,"serverInfo":`...)
	out = append(out, g.serverInfo...)
	if text := snap.instructions(who, servers, s.scope, int(g.opts.Limits.Instructions)); text != "" {
		out = append(out, `,"instructions":`...)
		out = mcp.AppendQuote(out, text)
	}
	return response{result: append(out, '}')}
}

// connected tells servers what a client of theirs declared.
func connected(servers []*backendEntry, principal string, capabilities []byte) {
	for _, of := range servers {
		if aware, ok := of.backend.(ClientAware); ok {
			aware.Connected(principal, capabilities)
		}
	}
}

// checkInitialize validates the params of initialize.
func checkInitialize(msg *mcp.Message) *mcp.Error {
	if fault := checkMeta(msg); fault != nil {
		return fault
	}
	if _, ok := msg.ParamString("protocolVersion"); !ok {
		return mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "protocolVersion" must be a string`)
	}
	if capabilities := msg.Param("capabilities"); capabilities != nil && !mcp.IsObject(capabilities) {
		return mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "capabilities" must be an object`)
	}
	return nil
}

// discover answers server/discover (2026-07-28 server/discover) from what is known. No
// server is asked.
func discover(g *Gateway, ctx context.Context, x *Exchange) response {
	if err := g.requests.Take(limit.Initializes, x.Identity.Key()); err != nil {
		return g.refuse(x, err)
	}
	snap := g.snapshot.Load()
	servers, decided := snap.describedServers(ctx, x.Identity, x.Scope, modernFeatures)
	out := []byte(`{"resultType":"complete","supportedVersions":` + supportedVersions + `,"capabilities":`)
	out = append(out, g.capabilities(servers, decided, x.Version, x.Scope)...)
	if text := snap.instructions(x.Identity, servers, x.Scope, int(g.opts.Limits.Instructions)); text != "" {
		out = append(out, `,"instructions":`...)
		out = mcp.AppendQuote(out, text)
	}
	return response{result: append(g.appendCaching(out, discoverTTL), '}')}
}

// discoverTTL is how long a discovery is fresh, in milliseconds.
const discoverTTL = 60_000

// supportedVersions are the revisions of this gateway, newest first.
const supportedVersions = `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`

// describedServers returns the servers that the result of initialize or server/discover
// describes: those in scope whose lists are still unknown, and those of which the
// caller may view something. Where the gate cannot decide there are none, and decided
// is false.
func (s *Snapshot) describedServers(ctx context.Context, id *gate.Identity, scope Scope, features clientFeatures) (servers []*backendEntry, decided bool) {
	for _, of := range s.catalogOf(id, features).servers {
		switch {
		case !scope.has(of.backend.Name()):
		case of.listing == nil:
			servers = append(servers, of)
		default:
			some, err := s.viewsAny(ctx, id, scope, of)
			if err != nil {
				return nil, false
			}
			if some {
				servers = append(servers, of)
			}
		}
	}
	return servers, true
}

// viewsAny reports whether a caller may view anything of a server. For a server that
// lists nothing, the gate is asked about a capability without a name. The error means
// that the gate could not decide.
func (s *Snapshot) viewsAny(ctx context.Context, id *gate.Identity, scope Scope, of *backendEntry) (bool, error) {
	empty := true
	for _, kind := range mcp.Kinds {
		for some := range slices.Chunk(of.rendered[kind], 16) { // the first chunk is mostly enough
			empty = false
			for _, d := range s.views(ctx, id, scope, some) {
				switch {
				case d.Undecidable(): // treated as hidden
				case d.Err != nil || d.Effect == gate.Allow:
					return true, d.Err
				}
			}
		}
	}
	if !empty {
		return false, nil
	}
	d := s.Chain.Decide(ctx, &gate.Request{Action: gate.View, Server: of.backend.Name(), Capsule: scope.Capsule, Identity: id})
	if d.Undecidable() {
		return false, nil
	}
	return d.Effect == gate.Allow, d.Err
}

// capabilities merges the capabilities of servers for a client of a revision. While a
// server is unknown, or the gate cannot decide, everything that may turn out to be
// offered is declared.
func (g *Gateway) capabilities(servers []*backendEntry, decided bool, version mcp.Version, scope Scope) []byte {
	maybe := !decided
	tools, prompts, resources, subscribe, logging, completions := maybe || scope.View == FindView, maybe, maybe, maybe, maybe, maybe
	var tasks, listTasks, cancelTasks bool // of 2025-11-25
	extensions := map[string][]byte{}
	for _, s := range servers {
		l := s.listing
		if l == nil {
			if _, status := s.backend.Listing(); status.State != mcp.Disabled && status.State != mcp.Failed {
				tools, prompts, resources, subscribe, logging, completions = true, true, true, true, true, true
				tasks, listTasks, cancelTasks = true, true, true
				if version.Era() == mcp.Modern {
					extensions[mcp.ExtensionTasks] = []byte("{}")
				}
			}
			continue
		}
		tools = tools || l.Declares("tools")
		prompts = prompts || l.Declares("prompts")
		resources = resources || l.Declares("resources") || s.mount.Keeps()
		subscribe = subscribe || l.Declares("resources", "subscribe")
		logging = logging || l.Declares("logging")
		completions = completions || l.Declares("completions")
		if s.hasTasks() {
			tasks, listTasks, cancelTasks = true, listTasks || l.Declares("tasks", "list"), cancelTasks || l.Declares("tasks", "cancel")
		}
		offered := mcp.Lookup(l.Capabilities, "extensions")
		for m := range mcp.Members(offered) {
			name, _ := mcp.Unquote(m.Key(offered))
			settings := m.Value.Of(offered)
			switch {
			case name == mcp.ExtensionTasks && (l.Era == mcp.Legacy || version.Era() == mcp.Legacy):
			case extensions[name] == nil:
				extensions[name] = settings
			default:
				extensions[name] = mcp.Merge(extensions[name], settings)
			}
		}
	}
	var parts []string
	add := func(on bool, text string) {
		if on {
			parts = append(parts, text)
		}
	}
	add(tools, `"tools":{"listChanged":true}`)
	add(prompts, `"prompts":{"listChanged":true}`)
	add(resources && subscribe, `"resources":{"subscribe":true,"listChanged":true}`)
	add(resources && !subscribe, `"resources":{"listChanged":true}`)
	add(logging, `"logging":{}`)
	add(completions, `"completions":{}`)
	if tasks && version == mcp.V20251125 {
		part := `"tasks":{`
		if listTasks {
			part += `"list":{},`
		}
		if cancelTasks {
			part += `"cancel":{},`
		}
		parts = append(parts, part+`"requests":{"tools":{"call":{}}}}`)
	}
	if len(extensions) > 0 { // legacy revisions have them too (SEP-2133)
		var own []string
		for _, name := range sortedKeys(extensions) {
			own = append(own, string(mcp.Quote(name))+":"+string(extensions[name]))
		}
		parts = append(parts, `"extensions":{`+strings.Join(own, ",")+`}`)
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// instructions merges the instructions of servers, as far as the registry lets the
// caller see them. Each is cut to most bytes. What is longer than clients read begins
// with a summary. The find view has the summary alone: what a server says of itself is
// of no use before one of its tools is found.
func (s *Snapshot) instructions(id *gate.Identity, servers []*backendEntry, scope Scope, most int) string {
	var parts []string
	var said []findview.Server
	prefixed := false
	for _, of := range servers {
		if of.listing == nil {
			continue
		}
		text := of.listing.Instructions
		if text != "" && s.registry != nil && !s.registry.ShowsInstructions(id, of.backend.Name(), text) {
			text = ""
		}
		said = append(said, findview.Server{Name: of.backend.Name(), Instructions: text})
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "..."
		}
		if of.mount.Namespace != "" {
			prefixed = prefixed || len(of.rendered[mcp.Tool])+len(of.rendered[mcp.Prompt]) > 0
			if text != "" {
				text = of.mount.Namespace + "__*: " + text
			}
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	if scope.View == FindView {
		return findview.Instructions(said)
	}
	if prefixed {
		parts = append([]string{"Tools and prompts are named SERVER__NAME after the server that they come from."}, parts...)
	}
	whole := strings.Join(parts, "\n\n")
	if len(whole) > findview.MaxInstructions {
		return findview.Servers(said) + "\n\n" + whole
	}
	return whole
}
