package opa

import (
	"encoding/json"

	"github.com/toolgate/toolgate/gate"
)

// ViewClass is [gate.Part.ViewClass]. Callers are in one class when they agree in
// everything about a caller that any rule of the policy reads. A policy that looks at the
// clock, and one on a remote server, can decide otherwise at any time, so that their
// decisions are not cacheable.
func (p *Phase) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	now := p.current.Load()
	switch {
	case id == nil:
		return "", true
	case now == nil && p.remote == nil:
		return "none", true // everybody is denied everything
	case now == nil, now.reads.impure:
		return "", false
	}
	in, err := p.o.document(&gate.Request{Action: gate.Enable, Identity: id}, true)
	if err != nil {
		return "", false
	}
	// context is made of what the caller's other members hold, and the capsule.
	everything := now.reads.any(inputContext)
	of := map[string]any{}
	for _, name := range fromCaller {
		if everything || now.reads.any(name) {
			of[name] = in[name]
		}
	}
	raw, err := json.Marshal(of) // sorts by name
	if err != nil {
		return "", false
	}
	return now.identity + string(raw), true
}

// ReadsArguments tells whether a decision about a call may depend on its arguments.
// Of a remote server that is not known, and true.
func (p *Phase) ReadsArguments() bool {
	now := p.current.Load()
	return now == nil || now.reads.impure || now.reads.any(inputContext) || now.reads.any(inputArgs, inputReplaced)
}

// ReadsUnrecorded tells whether a decision may depend on what no record of a call
// has: the scopes of the caller, the capsule of the endpoint, and what changes by
// itself, such as the time. Of a remote server that is not known, and true.
func (p *Phase) ReadsUnrecorded() bool {
	now := p.current.Load()
	return now == nil || now.reads.impure || now.reads.any("scopes", "capsule", "context.capsule", wholeContext)
}
