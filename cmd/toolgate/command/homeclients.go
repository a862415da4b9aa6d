package command

import (
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/internal/daemon/home"
)

// homeClients are the clients that the page at the gateway's address has entries for: those
// that can use a URL. With keys, the key is in a variable of the client's environment where
// its file can say so.
func homeClients(url string, keys bool) []home.Client {
	const variable = "TOOLGATE_API_KEY"
	var all []home.Client
	for _, c := range clients.All() {
		if c.Remote == nil {
			continue
		}
		key := clients.Key{}
		if keys && (c.Reference != "" || c.Name == "codex") { // Codex names the variable itself
			key = clients.Key{Variable: variable, Reference: strings.ReplaceAll(c.Reference, "NAME", variable)}
		}
		name := filepath.Base(c.Files[0].Path)
		entry := string(edit.Whole(name, c.Remote(url, key)))
		if !c.Whole {
			entry = edit.Text(name, c.Section, clients.Entry, c.Remote(url, key))
		}
		all = append(all, home.Client{Title: c.Title, Name: c.Name, File: c.Files[0].Path, Entry: entry, After: c.After})
	}
	return all
}
