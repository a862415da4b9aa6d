package config

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
)

// SpiceDB asks who is related to what; at most one of Endpoint and Builtin is
// set. An id is a template of parts, such as "{tenant}/{exposed}"; each part is
// encoded so that no two things are ever the same object.
type SpiceDB struct {
	// Endpoint is the host:port of the SpiceDB. Absent: see builtin.
	Endpoint string `config:"endpoint" format:"target"`
	// Token is the server's preshared key. Absent: none is sent.
	Token secret.Text `config:"token"`
	// TLS encrypts the connection and verifies the server. Absent: yes.
	TLS *bool `config:"tls"`
	// CA is the PEM file of the authorities that the server's certificate may be of. Absent: those of the system.
	CA string `config:"ca" format:"path"`
	// Object is the type of tools. Absent: tool.
	Object string `config:"object"`
	// Permission is asked for on tools and prompts, to call. Absent: execute.
	Permission string `config:"permission"`
	// ViewPermission is asked for on tools, prompts and resources, to see them. Absent: as to call.
	ViewPermission string `config:"view_permission"`
	// ObjectID is the template of the ids of tools and prompts, of {tenant}, {server}, {original}, {exposed} and
	// {capability}. Absent: {exposed}.
	ObjectID string `config:"object_id"`
	// Prompt is the type of prompts. Absent: prompt.
	Prompt string `config:"prompt"`
	// Resource is the type of resources. Absent: resource.
	Resource string `config:"resource"`
	// ResourcePermission is asked for on resources, to read. Absent: read.
	ResourcePermission string `config:"resource_permission"`
	// ResourceID is the template of the ids of resources. Absent: {server}, one object for all of a server.
	ResourceID string `config:"resource_id"`
	// Subject is the type of callers. Absent: user.
	Subject string `config:"subject"`
	// SubjectID is the template of the ids of callers, of {tenant}, {issuer}, {subject} and {persona}. Absent: {subject}.
	SubjectID string `config:"subject_id"`
	// Server is the type of servers. Absent: server.
	Server string `config:"server"`
	// ServerID is the template of the ids of servers. Absent: {server}.
	ServerID string `config:"server_id"`
	// ServerRelation leads from a tool, prompt or resource to its server. Absent: server.
	ServerRelation string `config:"server_relation"`
	// Grant is the relation on tools and prompts that an explanation proposes. Absent: executor.
	Grant string `config:"grant"`
	// ResourceGrant is the relation on resources that an explanation proposes. Absent: reader.
	ResourceGrant string `config:"resource_grant"`
	// Ban is the relation that takes a permission away. Absent: banned.
	Ban string `config:"ban"`
	// Strict asks the server fully consistent every time and keeps no answer. Absent: answers are kept until the
	// server tells of a change.
	Strict bool `config:"strict"`
	// StrictFor are globs of exposed names for which strict holds. Absent: none.
	StrictFor []string `config:"strict_for"`
	// Timeouts bound the questions to the server. Absent: the defaults of each.
	Timeouts SpiceDBTimeouts `config:"timeouts"`
	// Cache is how many single answers are kept. Absent: 65536.
	Cache int `config:"cache" min:"1" max:"16777216"`
	// Zone is the time zone of the hour that caveats are given. Absent: UTC.
	Zone string `config:"zone" format:"zone"`
	// Builtin answers from the file where there is no server. Absent: it does not.
	Builtin *Relations `config:"builtin"`
}

// SpiceDBTimeouts bound the questions to a SpiceDB.
type SpiceDBTimeouts struct {
	// Call bounds the decision of one request. Absent: 150ms.
	Call time.Duration `config:"call" min:"1ms" max:"1m"`
	// List bounds the decisions of one list, together. Absent: 500ms.
	List time.Duration `config:"list" min:"1ms" max:"1m"`
}

// Relations are who may do what, without a SpiceDB. Subjects are written
// user:alice, team:dev for its members and tenant:acme for its members.
type Relations struct {
	// Teams are people who may do the same, by name. Absent: none.
	Teams map[string]Team `config:"teams"`
	// Tenants are whom servers belong to, by name. Absent: none.
	Tenants map[string]TenantRelations `config:"tenants"`
	// Servers are who may execute all that a server offers, by its key. Absent: nobody.
	Servers map[string]ServerRelations `config:"servers"`
	// Tools are who may use one tool, by object id, which is the exposed name unless object_id says otherwise. Absent: nobody.
	Tools map[string]ObjectRelations `config:"tools"`
	// Prompts are who may use one prompt, as for tools. Absent: nobody.
	Prompts map[string]ObjectRelations `config:"prompts"`
	// Resources are who may read resources, by the key of their server unless resource_id says otherwise. Absent: nobody.
	Resources map[string]ObjectRelations `config:"resources"`
	// Relations are single relationships, such as tool:gh__search#executor@user:alice. Absent: none.
	Relations []string `config:"relations"`
}

// Team is people who may do the same.
type Team struct {
	// Members are users and teams. Absent: nobody.
	Members []string `config:"members"`
}

// TenantRelations are the people of a tenant.
type TenantRelations struct {
	// Admins are users who may execute what the servers of the tenant offer. Absent: nobody.
	Admins []string `config:"admins"`
	// Members are users and teams. Absent: nobody.
	Members []string `config:"members"`
}

// ServerRelations are who may execute all that a server offers.
type ServerRelations struct {
	// Tenant is the tenant that the server belongs to. Absent: none.
	Tenant string `config:"tenant"`
	// Executors are users, teams and tenants. Absent: nobody.
	Executors []string `config:"executors"`
}

// ObjectRelations are who may use one tool, prompt or resource.
type ObjectRelations struct {
	// Owners are users who may use it. Absent: nobody.
	Owners []string `config:"owners"`
	// Executors are users and teams who may use it. Absent: nobody.
	Executors []string `config:"executors"`
	// Banned are users who may not use it, whatever else lets them. Absent: nobody.
	Banned []string `config:"banned"`
}
