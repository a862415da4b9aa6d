package daemon

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/admin"
)

// maxUnreviewedNames is how many names of unreviewed definitions a status has.
const maxUnreviewedNames = 100

// unreviewedOf is what nobody has accepted of a server, for a status.
func unreviewedOf(of *registry.Unreviewed) *admin.Unreviewed {
	out := &admin.Unreviewed{
		Held: len(of.Held), Suspicious: of.Suspicious, Adopted: len(of.Adopted),
		HeldNames: of.Held[:min(len(of.Held), maxUnreviewedNames)], AdoptedNames: of.Adopted[:min(len(of.Adopted), maxUnreviewedNames)],
	}
	var todo []string
	if out.Held > 0 {
		name := commandName(of.Held)
		todo = append(todo, fmt.Sprintf("Look at it with `toolgate catalog diff %s`; `toolgate catalog accept %s` serves it.", name, name))
	}
	if out.Adopted > 0 {
		name := commandName(of.Adopted)
		todo = append(todo, fmt.Sprintf("Look at it with `toolgate catalog show %s`; `toolgate catalog disable %s` hides it. "+
			"To hold every change, write toolgate.registry: { on_new: adopt, on_change: hold }.", name, name))
	}
	out.Fix = strings.Join(todo, " ")
	return out
}

// unreviewedReason says what nobody has accepted, and how to look at it.
func unreviewedReason(of *registry.Unreviewed) string {
	var parts []string
	if n := len(of.Held); n > 0 {
		what, look := "1 definition is held", "toolgate catalog diff "+commandName(of.Held)
		if n > 1 {
			what, look = fmt.Sprintf("%d definitions are held", n), "toolgate catalog ls --state held"
		}
		switch {
		case n == 1 && of.Suspicious == 1:
			what += " because it looks like prompt injection"
		case of.Suspicious > 0:
			what += fmt.Sprintf(", %d because of what looks like prompt injection", of.Suspicious)
		}
		parts = append(parts, what+": see `"+look+"`")
	}
	if n := len(of.Adopted); n > 0 {
		what := "1 definition is new or changed, and is served"
		if n > 1 {
			what = fmt.Sprintf("%d definitions are new or changed, and are served", n)
		}
		parts = append(parts, what+": see `toolgate catalog show "+commandName(of.Adopted)+"`")
	}
	return strings.Join(parts, "; ")
}

// plainName matches the names that mean nothing but themselves in a shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*$`)

// commandName is the first of these names that can be pasted into a command: servers choose
// names, and a person may paste what is proposed. It is NAME where there is none.
func commandName(names []string) string {
	for _, name := range names {
		if plainName.MatchString(name) {
			return name
		}
	}
	return "NAME"
}
