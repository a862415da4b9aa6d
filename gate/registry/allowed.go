package registry

import "github.com/toolgate/toolgate/internal/mcp"

// kinds are the kinds of which a persona has only what is allowed to it.
type kinds map[string]bool

// everyKind stands for the kind of a capability that is recorded no more. Its list still
// counts, so that nothing is allowed because something has gone.
const everyKind = ""

// listOf is the kind of a list: resources and templates have one together.
func listOf(kind string) string {
	if kind == mcp.Template.String() {
		return mcp.Resource.String()
	}
	return kind
}

// with adds the kind of a row, which is nil for one that is recorded no more.
func (k kinds) with(one *row) kinds {
	if k == nil {
		k = kinds{}
	}
	if one == nil {
		k[everyKind] = true
		return k
	}
	k[listOf(one.key.Kind)] = true
	return k
}

// has tells whether of a kind only what is allowed may be used. Instructions of servers
// are no capability.
func (k kinds) has(kind string) bool {
	return len(k) > 0 && kind != KindInstructions && (k[everyKind] || k[listOf(kind)])
}
