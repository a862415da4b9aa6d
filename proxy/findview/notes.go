package findview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// This file has the notes of an answer: why something may be missing.

// NoteSignIn says that the caller's user has to sign in to a server, at an address if that
// is not empty.
func NoteSignIn(server, address string) string {
	if address == "" {
		return fmt.Sprintf("Tools of the server %s may be missing until the user has signed in.", server)
	}
	return fmt.Sprintf("Tools of the server %s may be missing until the user has signed in at %s", server, address)
}

// NoteNoCredential says that there is no credential of the caller for a server.
func NoteNoCredential(server string) string {
	return fmt.Sprintf("Tools of the server %s may be missing: the gateway has no credential of the caller for it.", server)
}

// NoteOperator says that the operator has to sign in to a server.
func NoteOperator(server string) string {
	return fmt.Sprintf("Tools of the server %s may be missing until the operator has signed in to it.", server)
}

// NoteStarting says that a server has not started.
func NoteStarting(server string) string {
	return fmt.Sprintf("The server %s has not started yet, so that its tools are missing.", server)
}

// NoteDown says that a server does not answer.
func NoteDown(server string) string {
	return fmt.Sprintf("The server %s does not answer at the moment; a call of its tools may fail.", server)
}

// maxNamed is how many servers a note names.
const maxNamed = 20

// NoteHeld says how many definitions of servers are not accepted; empty for none.
func NoteHeld(kind mcp.Kind, counts map[string]int) string {
	var all []string
	for _, server := range slices.Sorted(maps.Keys(counts)) {
		what := kind.ListKey()
		if counts[server] == 1 {
			what = kind.String()
		}
		all = append(all, fmt.Sprintf("%d %s of the server %s", counts[server], what, server))
	}
	if len(all) == 0 {
		return ""
	}
	return "Until the operator accepts them, these cannot be found: " + strings.Join(all[:min(len(all), maxNamed)], ", ") + "."
}

// NoteNothing says that a search found nothing. servers are those of which the caller may
// view something; server is the one that was asked for, empty for all.
func NoteNothing(server string, servers []string) string {
	switch {
	case len(servers) > 0:
		return "Nothing matches. Say it in other words. There are tools of: " + strings.Join(servers[:min(len(servers), maxNamed)], ", ") + "."
	case server != "":
		return fmt.Sprintf("There is no server %q.", server)
	}
	return "There are no tools that you may view."
}
