package spicedb

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Mapping says what the schema calls what the gate asks about. Every empty
// field has the default that its comment names; templates and resources count as
// resources, and an explanation looks whether a ban is there.
//
// An id is a template of parts, "{tenant}/{exposed}" or shorter
// "tenant/exposed". Each part is encoded as [EncodeID] does, and the characters
// that separate parts are escaped inside them too, so that no two things are
// ever the same object.
type Mapping struct {
	// Object type of tools. Default: tool.
	Object string `config:"object"`
	// Permission that a call of a tool or prompt requires. Default: execute.
	Permission string `config:"permission"`
	// Permission to see a tool, prompt or resource in lists. Default: the one for calls.
	ViewPermission string `config:"view_permission"`
	// Template for the object IDs of tools and prompts, with {tenant}, {server}, {original}, {exposed} and {capability}.
	// Default: {exposed}.
	ObjectID string `config:"object_id"`
	// Object type of prompts. Default: prompt.
	Prompt string `config:"prompt"`
	// Object type of resources. Default: resource.
	Resource string `config:"resource"`
	// Permission that reading a resource requires. Default: read.
	ResourcePermission string `config:"resource_permission"`
	// Template for the object IDs of resources. Default: {server}, one object for all resources of a server.
	ResourceID string `config:"resource_id"`
	// Object type of callers. Default: user.
	Subject string `config:"subject"`
	// Template for the object IDs of callers, with {tenant}, {issuer}, {subject} and {persona}. Default: {subject}.
	SubjectID string `config:"subject_id"`
	// Object type of servers. Default: server.
	Server string `config:"server"`
	// Template for the object IDs of servers. Default: {server}.
	ServerID string `config:"server_id"`
	// Relation from a tool, prompt or resource to its server. Default: server.
	ServerRelation string `config:"server_relation"`
	// Relation on tools and prompts that `toolgate why` suggests to grant access. Default: executor.
	Grant string `config:"grant"`
	// Relation on resources that `toolgate why` suggests to grant access. Default: reader.
	ResourceGrant string `config:"resource_grant"`
	// Relation that revokes a permission. Default: banned.
	Ban string `config:"ban"`
}

// names is a Mapping with its defaults and its templates parsed. The zero
// names name nothing, which denies.
type names struct {
	Mapping
	object, resource, subject, server template
}

// identifier is what SpiceDB takes as the name of a type or relation.
var (
	typeName     = regexp.MustCompile(`^([a-z][a-z0-9_]{1,61}[a-z0-9]/)*[a-z][a-z0-9_]{1,62}[a-z0-9]$`)
	relationName = regexp.MustCompile(`^[a-z][a-z0-9_]{1,62}[a-z0-9]$`)
)

// complete fills in the defaults and reads the templates. The error joins all
// that is wrong.
func (m Mapping) complete() (names, error) {
	m = m.withDefaults()
	n := names{Mapping: m}
	var wrong []error
	for _, f := range []struct {
		key, value string
		is         *regexp.Regexp
	}{
		{"object", m.Object, typeName},
		{"prompt", m.Prompt, typeName},
		{"resource", m.Resource, typeName},
		{"subject", m.Subject, typeName},
		{"server", m.Server, typeName},
		{"permission", m.Permission, relationName},
		{"view permission", m.ViewPermission, relationName},
		{"resource permission", m.ResourcePermission, relationName},
		{"server relation", m.ServerRelation, relationName},
		{"grant", m.Grant, relationName},
		{"resource grant", m.ResourceGrant, relationName},
		{"ban", m.Ban, relationName},
	} {
		// The view permission has no default of its own.
		if f.value != "" && !f.is.MatchString(f.value) {
			wrong = append(wrong, fmt.Errorf("%s %q is not a name that SpiceDB takes: use 3 to 64 lower-case letters, digits and underscores", f.key, f.value))
		}
	}
	for _, f := range []struct {
		key   string
		text  string
		known []part
		into  *template
	}{
		{"object id", m.ObjectID, objectParts, &n.object},
		{"resource id", m.ResourceID, objectParts, &n.resource},
		{"server id", m.ServerID, objectParts, &n.server},
		{"subject id", m.SubjectID, subjectParts, &n.subject},
	} {
		t, err := parseTemplate(f.text, f.known)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", f.key, err))
		}
		*f.into = t
	}
	if err := errors.Join(wrong...); err != nil {
		return names{}, err
	}
	return n, nil
}

// TellsApart tells whether callers of different tenants, and of different
// issuers, are different subjects. Where they are not, a name at one tenant or
// issuer has what the same name has at another.
func (m Mapping) TellsApart() (tenants, issuers bool) {
	t, err := parseTemplate(m.withDefaults().SubjectID, subjectParts)
	if err != nil {
		return false, false
	}
	for _, p := range t.pieces {
		tenants = tenants || p.part == partTenant
		issuers = issuers || p.part == partIssuer
	}
	return tenants, issuers
}

func (m Mapping) withDefaults() Mapping {
	m.Object = cmp.Or(m.Object, "tool")
	m.Permission = cmp.Or(m.Permission, "execute")
	m.ObjectID = cmp.Or(m.ObjectID, "exposed")
	m.Prompt = cmp.Or(m.Prompt, "prompt")
	m.Resource = cmp.Or(m.Resource, "resource")
	m.ResourcePermission = cmp.Or(m.ResourcePermission, "read")
	m.ResourceID = cmp.Or(m.ResourceID, "server")
	m.Subject = cmp.Or(m.Subject, "user")
	m.SubjectID = cmp.Or(m.SubjectID, "{subject}")
	m.Server = cmp.Or(m.Server, "server")
	m.ServerID = cmp.Or(m.ServerID, "server")
	m.ServerRelation = cmp.Or(m.ServerRelation, "server")
	m.Grant = cmp.Or(m.Grant, "executor")
	m.ResourceGrant = cmp.Or(m.ResourceGrant, "reader")
	m.Ban = cmp.Or(m.Ban, "banned")
	return m
}

// ref is an object.
type ref struct{ kind, id string }

func (r ref) String() string { return r.kind + ":" + r.id }

// question is what SpiceDB is asked. It is the cache key of an answer, beside
// the caveat context.
type question struct {
	object     ref
	permission string
	subject    ref
}

// String is the question as the zed tool takes it.
func (q question) String() string {
	return "zed permission check " + quoted(q.object.String()) + " " + q.permission + " " + quoted(q.subject.String())
}

// quoted protects what a shell would take for a pipe.
func quoted(s string) string {
	if strings.Contains(s, "|") {
		return "'" + s + "'"
	}
	return s
}

// errUnnamed is a request of which no question can be made.
var errUnnamed = errors.New("there is no object for it")

// of returns the question of a request.
func (n *names) of(r *gate.Request) (question, error) {
	object, err := n.objectOf(r)
	if err != nil {
		return question{}, err
	}
	subject, err := n.subjectOf(r.Identity)
	if err != nil {
		return question{}, err
	}
	return question{object: object, permission: n.permission(r), subject: subject}, nil
}

func (n *names) objectOf(r *gate.Request) (ref, error) {
	kind, ids := "", &n.object
	switch r.Kind {
	case mcp.Tool:
		kind = n.Object
	case mcp.Prompt:
		kind = n.Prompt
	case mcp.Resource, mcp.Template:
		kind, ids = n.Resource, &n.resource
	default:
	}
	if kind == "" {
		return ref{}, fmt.Errorf("%w: it is neither tool, prompt, resource nor template", errUnnamed)
	}
	id, err := ids.render(func(p part) string { return objectPart(r, p) })
	if err != nil {
		return ref{}, fmt.Errorf("%w: %s %.64q of %q: %w", errUnnamed, r.Kind, r.Exposed, r.Server, err)
	}
	return ref{kind, id}, nil
}

func (n *names) subjectOf(id *gate.Identity) (ref, error) {
	if id == nil {
		return ref{}, fmt.Errorf("%w: the caller is not known", errUnnamed)
	}
	name, err := n.subject.render(func(p part) string { return subjectPart(id, p) })
	if err != nil {
		return ref{}, fmt.Errorf("%w: the caller: %w", errUnnamed, err)
	}
	return ref{n.Subject, name}, nil
}

// permission is what a caller needs for the action of a request.
func (n *names) permission(r *gate.Request) string {
	if r.Action == gate.View && n.ViewPermission != "" {
		return n.ViewPermission
	}
	if r.Kind == mcp.Resource || r.Kind == mcp.Template {
		return n.ResourcePermission
	}
	return n.Permission
}

// grant is the relation that would allow what is asked.
func (n *names) grant(q question) string {
	if q.object.kind == n.Resource {
		return n.ResourceGrant
	}
	return n.Grant
}

func objectPart(r *gate.Request, p part) string {
	switch p {
	case partServer:
		return r.Server
	case partOriginal:
		return r.Original
	case partExposed:
		return r.Names().Stable()
	case partCapability:
		return r.CapabilityID
	case partTenant:
		if r.Identity != nil {
			return r.Identity.Tenant
		}
	default:
	}
	return ""
}

func subjectPart(id *gate.Identity, p part) string {
	switch p {
	case partTenant:
		return id.Tenant
	case partIssuer:
		return id.Issuer
	case partSubject:
		return id.Subject
	case partPersona:
		return id.Persona
	default:
		return ""
	}
}
