package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/config/edit"
)

// writeClients writes the page that leads to those of each client.
func writeClients(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Clients\n\nHow to connect each client. `toolgate connect CLIENT` writes one entry into its file and\nleaves the rest as it is. `toolgate connect CLIENT --undo` removes the entry again.\n\n| client | name for `connect` | most tools | searches them by itself | longest name | refuses schemas with | reads the list again when it changes |\n|---|---|---|---|---|---|---|\n")
	for _, c := range clients.All() {
		again := "yes, or unknown"
		if c.Limits.Fixed != "" {
			again = "no: it " + c.Limits.Fixed
		}
		searches, refuses := "-", "-"
		if c.Limits.Searches != "" {
			searches = "yes"
		}
		switch {
		case c.Limits.ObjectRoot:
			refuses = "alternatives at the root"
		case c.Limits.TypeLists:
			refuses = "lists of types"
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | `%s` | %s | %s | %s | %s | %s |\n", c.Title, c.Name, c.Name, limitText(c.Limits.Tools), searches, limitText(c.Limits.Name), refuses, again)
	}
	b.WriteString("\nA dash is for what is not known of a client, or not so. `connect` gives a client that does not\nsearch by itself the find view (`/mcp/find`) if the tools of the running gateway are more than it\naccepts, or cost its model more than about 20,000 tokens; `--view full` or `--view find` decides\notherwise. It lists [strict schemas](../schemas.md#strict) to a client that refuses a part of\nJSON Schema.\n")
	b.WriteString("\nThese pages are generated from the table of the program (`go generate ./cmd/toolgate/cli`).\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func limitText(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// writeClient writes the page of a client.
func writeClient(c *clients.Client) func(io.Writer) error {
	return func(w io.Writer) error {
		var b strings.Builder
		fmt.Fprintf(&b, "# %s\n\nImport its servers, if it has any, into toolgate's own file, and point it at toolgate:\n\n", c.Title)
		scope := ""
		if c.Files[0].Scope == "project" && len(c.Files) == 1 {
			scope = " --scope project"
		}
		fmt.Fprintf(&b, "```sh\ntoolgate import --write\ntoolgate connect %s%s\n```\n\n%s\n", c.Name, scope, c.After)
		b.WriteString("\n## What is written\n\n")
		for _, f := range c.Files {
			windows := ""
			if f.Windows != "" {
				windows = ", on Windows `" + f.Windows + "`"
			}
			fmt.Fprintf(&b, "- %s: `%s`%s\n", f.Scope, f.Path, windows)
		}
		b.WriteString("\n`{config}` is your configuration folder: `~/.config`, on macOS `~/Library/Application Support`, on\nWindows `%AppData%`. `--scope project` writes the file of the folder that you are in.\n")
		name := filepath.Base(c.Files[0].Path)
		show := func(title string, m edit.Map) {
			text := string(edit.Whole(name, m))
			if !c.Whole {
				text = edit.Text(name, c.Section, clients.Entry, m)
			}
			kind := strings.TrimPrefix(filepath.Ext(name), ".")
			fmt.Fprintf(&b, "\n%s\n\n```%s\n%s```\n", title, kind, text)
		}
		show("The client starts `toolgate stdio`, which joins a running gateway of the same file or is one itself:", c.Stdio("/usr/local/bin/toolgate", []string{"stdio", "/home/you/toolgate.yaml"}))
		if c.Remote != nil {
			key := clients.Key{Variable: "TOOLGATE_API_KEY", Reference: strings.ReplaceAll(c.Reference, "NAME", "TOOLGATE_API_KEY")}
			flags := " --key-env TOOLGATE_API_KEY"
			if c.Reference == "" && c.Name != "codex" {
				key, flags = clients.Key{}, ""
			}
			show("With `--http"+flags+"` it calls a running gateway:", c.Remote("http://127.0.0.1:7777/mcp", key))
			fmt.Fprintf(&b, "\n```sh\ntoolgate connect %s%s --http%s\n```\n", c.Name, scope, flags)
		}
		b.WriteString("\n## Limits of the client\n\n")
		l := &c.Limits
		for _, line := range []struct {
			is   bool
			text string
		}{
			{l.Tools > 0, fmt.Sprintf("At most %d tools.", l.Tools)},
			{l.Searches != "", "It " + l.Searches + "."},
			{l.Name > 0, fmt.Sprintf("Names of %d characters with its prefix `%s`; with a longer one it %s.", l.Name, c.Shown("TOOL"), l.Over)},
			{l.Name == 0 && l.Prefix != "", fmt.Sprintf("It shows tools as `%s`.", c.Shown("TOOL"))},
			{l.Chars != "", "Names of `" + l.Chars + "`."},
			{l.Description > 0, fmt.Sprintf("Descriptions of %d bytes.", l.Description)},
			{l.Schema > 0, fmt.Sprintf("Schemas of %d bytes; it shortens longer ones.", l.Schema)},
			{l.ObjectRoot, "Schemas whose root is a plain object, as in the [strict mode](../schemas.md#strict)."},
			{l.TypeLists, "One type for each argument, as in the [strict mode](../schemas.md#strict)."},
			{l.Fixed != "", "It " + l.Fixed + ": start it when the servers are ready."},
			{l.Timeout != "", "Its timeout for a call: " + l.Timeout + "."},
		} {
			if line.is {
				fmt.Fprintf(&b, "- %s\n", line.text)
			}
		}
		for _, n := range c.Notes {
			fmt.Fprintf(&b, "- %s\n", n)
		}
		fmt.Fprintf(&b, "\nCheck your tools against these limits, and see how to fix what does not fit. The exit code is 2\nif something does not fit:\n\n```sh\ntoolgate tools lint --client %s\n```\n", c.Name)
		fmt.Fprintf(&b, "\n## Undo\n\n```sh\ntoolgate connect %s%s --undo\n```\n\nThe file becomes byte for byte what it was, unless something else in it has changed since.\n\nThis page is generated from the table of the program (`go generate ./cmd/toolgate/cli`).\n", c.Name, scope)
		_, err := io.WriteString(w, b.String())
		return err
	}
}
