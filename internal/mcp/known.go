package mcp

// Known is what the scan of a message has told about its result: which members of the
// protocol it has. A large result need not be searched for them again. The zero value knows
// nothing.
type Known struct {
	result []byte
	names  uint16
	kind   string
	failed bool // isError is true
	uris   bool // a URI may stand in it
}

// knownNames are the members that Known tells of, each a bit.
var knownNames = [...]string{
	"resultType", "inputRequests", "requestState", "isError", "structuredContent", "_meta", "ttlMs", "cacheScope",
}

// KnownResult returns what is known of the result of a response.
func (m *Message) KnownResult(result []byte) Known {
	k := Known{result: result, uris: m.uris}
	for i := range m.members {
		e := &m.members[i]
		if e.level != levelResult {
			continue
		}
		for bit, name := range knownNames {
			if e.name == name {
				k.names |= 1 << bit
			}
		}
		switch e.name {
		case "resultType":
			k.kind, _ = Unquote(e.value.Of(m.Raw))
		case "isError":
			k.failed = string(e.value.Of(m.Raw)) == "true"
		}
	}
	return k
}

// of reports whether result is the one that is known: the same memory, not equal bytes.
func (k *Known) of(result []byte) bool {
	return len(result) > 0 && len(k.result) == len(result) && &k.result[0] == &result[0]
}

// Lacks reports whether it is known that a result has no member of a name.
func (k *Known) Lacks(result []byte, name string) bool {
	if !k.of(result) {
		return false
	}
	for bit, known := range knownNames {
		if known == name {
			return k.names&(1<<bit) == 0
		}
	}
	return false
}

// Kind returns the resultType of a result. typed is false where it has none that is a string.
func (k *Known) Kind(result []byte) (kind string, typed bool) {
	if k.of(result) {
		if k.kind != "" {
			return k.kind, true
		}
		if k.Lacks(result, "resultType") {
			return "", false
		}
	}
	return LookupString(result, "resultType")
}

// Succeeded reports whether it is known that a result is not that of a tool that failed.
func (k *Known) Succeeded(result []byte) bool { return k.of(result) && !k.failed }

// LacksURI reports whether it is known that no URI of a resource stands in a result: none of
// its keys, at any depth, is one of those that the protocol has for them.
func (k *Known) LacksURI(result []byte) bool { return k.of(result) && !k.uris }
