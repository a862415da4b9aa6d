package findview

import (
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// This file has the notes of an answer: why something may be missing.

// NoteSignIn says that somebody has to sign in to a server: the operator, or the caller's
// user, at an address if that is not empty.
func NoteSignIn(server string, operator bool, address string) string {
	switch {
	case operator:
		return fmt.Sprintf("The operator has to sign in to the server %s, so that tools of it may be missing.", server)
	case address == "":
		return fmt.Sprintf("Tools of the server %s may be missing until the user has signed in.", server)
	}
	return fmt.Sprintf("Tools of the server %s may be missing until the user has signed in at %s", server, address)
}

// NoteStarting says that a server has not started.
func NoteStarting(server string) string {
	return fmt.Sprintf("The server %s has not started yet, so that its tools are missing.", server)
}

// NoteDown says that a server does not answer.
func NoteDown(server string) string {
	return fmt.Sprintf("The server %s does not answer at the moment; a call of its tools may fail.", server)
}

// NoteHeld says how many definitions of a server are not accepted.
func NoteHeld(server string, kind mcp.Kind, n int) string {
	if n == 1 {
		return fmt.Sprintf("1 %s of the server %s cannot be found until the operator accepts it.", kind, server)
	}
	return fmt.Sprintf("%d %s of the server %s cannot be found until the operator accepts them.", n, kind.ListKey(), server)
}

// maxNamed is how many servers an answer names that found nothing.
const maxNamed = 20

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
