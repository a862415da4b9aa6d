package clients

import (
	"slices"

	"github.com/toolgate/toolgate/config/edit"
)

// Client is one program that is a client of MCP servers.
type Client struct {
	Name  string // as it is written on the command line
	Title string // what it calls itself
	Files []File // the most significant first: its entry of a name wins
	// Section is the path of the map that holds the servers by name. It is empty if a
	// server has a file of its own.
	Section []string
	// Whole tells that a file is for one server alone, and is created and removed with
	// it.
	Whole bool
	// Reference is how its files refer to an environment variable, with NAME for the
	// name; empty if they cannot.
	Reference string

	Stdio  func(command string, args []string) edit.Map
	Remote func(url string, key Key) edit.Map // nil: it cannot use remote servers

	Limits Limits
	// After is what a person must do for the client to notice the change.
	After string
	// Notes are other facts to know.
	Notes []string
}

// Key is the API key that a client sends. The zero value is no key.
type Key struct {
	Variable  string // environment variable that holds it
	Reference string // reference to the variable, as the client's files write it
}

// Limits are what a client accepts. Zero means no known limit.
type Limits struct {
	Tools       int    // of all servers together
	Name        int    // of a tool, in characters, with the prefix
	Prefix      string // in front of each name; NAME is the name of the server in its file
	Over        string // what it does with a longer name
	Chars       string // of names, as a class of a regular expression; empty is any that MCP allows
	Description int    // of a tool, in bytes
	Schema      int    // of the arguments of a tool, in bytes of JSON
	// ObjectRoot tells that the root of a schema must be an object without anyOf, oneOf
	// and allOf.
	ObjectRoot bool
	// TypeLists tells that it does not accept a list as the type of an argument.
	TypeLists bool
	// Searches says how it keeps a long list from its model, for people; empty if it
	// shows all tools at once.
	Searches string
	// Fixed says how it ignores changes of the list, for people; empty if it does not.
	Fixed string
	// Timeout is how long it waits for a call by default, for people.
	Timeout string
}

// All returns the table, sorted by name.
func All() []*Client {
	return slices.Clone(table)
}

// Find returns the client of a name.
func Find(name string) (*Client, bool) {
	i := slices.IndexFunc(table, func(c *Client) bool { return c.Name == name })
	if i < 0 {
		return nil, false
	}
	return table[i], true
}

// Names returns the names of all clients, sorted.
func Names() []string {
	out := make([]string, len(table))
	for i, c := range table {
		out[i] = c.Name
	}
	return out
}

const (
	restart   = "Restart it."
	newReload = "Start a new session."
)

var table = []*Client{
	{
		Name: "amp", Title: "Amp", Section: []string{"amp.mcpServers"}, Reference: "${NAME}",
		Files: []File{project(".amp/settings.json"), user("{config}/amp/settings.json")},
		Stdio: plain, Remote: remote("", "url", "headers"), After: newReload,
	},
	{
		Name: "antigravity", Title: "Antigravity", Section: []string{"mcpServers"},
		Files: []File{user("{home}/.gemini/antigravity/mcp_config.json")},
		Stdio: plain, Remote: remote("", "serverUrl", "headers"), After: "Refresh its list of MCP servers.",
	},
	{
		Name: "claude-code", Title: "Claude Code", Section: []string{"mcpServers"}, Reference: "${NAME}",
		Files: []File{project(".mcp.json"), user("{home}/.claude.json")},
		Stdio: typed("stdio"), Remote: remote("http", "url", "headers"), After: newReload,
		Limits: Limits{Searches: "shows tools to its model when that searches for them", Name: 128, Prefix: "mcp__NAME__", Over: "leaves the tool out", Chars: "A-Za-z0-9_-", Description: 2048, Timeout: "about 28 hours; 30 minutes without progress (stdio), 5 (HTTP)"},
		Notes:  []string{"It asks once before it uses servers of a project's `.mcp.json`."},
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Section: []string{"mcpServers"},
		Files: []File{{Scope: "user", Path: "{config}/Claude/claude_desktop_config.json"}},
		Stdio: plain, After: restart,
		Limits: Limits{Name: 128, Over: "refuses the tool", Chars: "A-Za-z0-9_-", Timeout: "1 to 4 minutes"},
		Notes:  []string{"Its file cannot have remote servers, so it uses `toolgate stdio`."},
	},
	{
		Name: "cline", Title: "Cline", Section: []string{"mcpServers"}, Reference: "${env:NAME}",
		Files: []File{
			user("{home}/.cline/mcp.json"),
			user("{config}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
		},
		Stdio: plain, Remote: remote("streamableHttp", "url", "headers"), After: "It notices the change by itself.",
		Limits: Limits{Name: 64, Prefix: "NAME__", Over: "shortens it to 55 characters and a hash", Chars: "A-Za-z0-9_-", ObjectRoot: true, Timeout: "60 seconds"},
		Notes:  []string{"One schema whose root is not a plain object makes it drop the whole server."},
	},
	{
		Name: "codex", Title: "Codex", Section: []string{"mcp_servers"},
		Files: []File{project(".codex/config.toml"), user("{home}/.codex/config.toml")},
		Stdio: plain, After: newReload,
		Remote: func(url string, key Key) edit.Map {
			m := edit.Map{{Key: "url", Value: url}}
			if key.Variable != "" {
				m = append(m, edit.Field{Key: "bearer_token_env_var", Value: key.Variable})
			}
			return m
		},
		Limits: Limits{
			Searches: "shows tools to its model by namespace, when it asks for one",
			Name:     64, Prefix: "mcp__NAME__", Over: "shortens it to a hash", Chars: "A-Za-z0-9_", Schema: 5000,
			Fixed: "only logs that the list has changed", Timeout: "300 seconds",
		},
		Notes: []string{"It replaces every other character in names by `_`, including hyphens and dots.", "It shortens schemas of more than 5,000 bytes."},
	},
	{
		Name: "continue", Title: "Continue", Whole: true, Reference: "${{ secrets.NAME }}",
		Files: []File{project(".continue/mcpServers/toolgate.yaml"), user("{home}/.continue/mcpServers/toolgate.yaml")},
		Stdio: func(command string, args []string) edit.Map {
			return continueFile(edit.Map{{Key: "name", Value: Entry}, {Key: "type", Value: "stdio"}, {Key: "command", Value: command}, {Key: "args", Value: args}})
		},
		Remote: func(url string, key Key) edit.Map {
			m := edit.Map{{Key: "name", Value: Entry}, {Key: "type", Value: "streamable-http"}, {Key: "url", Value: url}}
			if key.Reference != "" {
				m = append(m, edit.Field{Key: "requestOptions", Value: edit.Map{{Key: "headers", Value: bearer(key)}}})
			}
			return continueFile(m)
		},
		After:  "Reload its configuration.",
		Limits: Limits{Prefix: "NAME_", Fixed: "does not read the list again when it changes", Timeout: "60 seconds"},
		Notes:  []string{"It shows only the text of results."},
	},
	{
		Name: "cursor", Title: "Cursor", Section: []string{"mcpServers"}, Reference: "${env:NAME}",
		Files: []File{project(".cursor/mcp.json"), user("{home}/.cursor/mcp.json")},
		Stdio: typed("stdio"), Remote: remote("", "url", "headers"), After: "Switch toolgate on in the settings of Cursor, or restart Cursor.",
		Limits: Limits{
			Tools: 80, Name: 60, Prefix: "NAME:", Over: "shortens it to a hash", Chars: "A-Za-z0-9_-", TypeLists: true,
			Fixed: "does not read the list again in versions since 3.12.17", Timeout: "not published",
		},
	},
	{
		Name: "gemini", Title: "Gemini CLI", Section: []string{"mcpServers"}, Reference: "${NAME}",
		Files: []File{project(".gemini/settings.json"), user("{home}/.gemini/settings.json")},
		Stdio: plain, Remote: remote("", "httpUrl", "headers"), After: newReload,
		Limits: Limits{Name: 63, Prefix: "mcp_NAME_", Over: "cuts out its middle, so two names may become the same", Chars: "A-Za-z0-9_.:-", Timeout: "600 seconds"},
		Notes:  []string{"It does not pass on variables whose names contain TOKEN, KEY or SECRET."},
	},
	{
		Name: "goose", Title: "Goose", Section: []string{"extensions"}, Reference: "${NAME}",
		Files: []File{{Scope: "user", Path: "{home}/.config/goose/config.yaml", Windows: "{config}/Block/goose/config/config.yaml"}},
		Stdio: func(command string, args []string) edit.Map {
			return edit.Map{
				{Key: "name", Value: Entry},
				{Key: "type", Value: "stdio"},
				{Key: "cmd", Value: command},
				{Key: "args", Value: args},
				{Key: "enabled", Value: true},
				{Key: "timeout", Value: 300},
			}
		},
		Remote: func(url string, key Key) edit.Map {
			m := edit.Map{{Key: "name", Value: Entry}, {Key: "type", Value: "streamable_http"}, {Key: "uri", Value: url}, {Key: "enabled", Value: true}, {Key: "timeout", Value: 300}}
			if key.Reference != "" {
				m = append(m, edit.Field{Key: "headers", Value: bearer(key)})
			}
			return m
		},
		After:  newReload,
		Limits: Limits{Prefix: "NAME__", Timeout: "300 seconds"},
	},
	{
		Name: "kiro", Title: "Kiro", Section: []string{"mcpServers"}, Reference: "${NAME}",
		Files: []File{project(".kiro/settings/mcp.json"), user("{home}/.kiro/settings/mcp.json")},
		Stdio: plain, Remote: remote("", "url", "headers"), After: "It notices the change by itself.",
	},
	{
		Name: "lmstudio", Title: "LM Studio", Section: []string{"mcpServers"},
		Files: []File{user("{home}/.lmstudio/mcp.json")},
		Stdio: plain, Remote: remote("", "url", "headers"), After: "It notices the change by itself.",
	},
	{
		Name: "opencode", Title: "OpenCode", Section: []string{"mcp"}, Reference: "{env:NAME}",
		Files: []File{project("opencode.json"), user("{home}/.config/opencode/opencode.json")},
		Stdio: func(command string, args []string) edit.Map {
			return edit.Map{{Key: "type", Value: "local"}, {Key: "command", Value: append([]string{command}, args...)}, {Key: "enabled", Value: true}}
		},
		Remote: remote("remote", "url", "headers"), After: newReload,
	},
	{
		Name: "roo", Title: "Roo Code", Section: []string{"mcpServers"}, Reference: "${env:NAME}",
		Files: []File{project(".roo/mcp.json"), user("{config}/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json")},
		Stdio: plain, Remote: remote("streamable-http", "url", "headers"), After: "It notices the change by itself.",
	},
	{
		Name: "vscode", Title: "VS Code", Section: []string{"servers"}, Reference: "${env:NAME}",
		Files: []File{project(".vscode/mcp.json"), user("{config}/Code/User/mcp.json")},
		Stdio: typed("stdio"), Remote: remote("http", "url", "headers"), After: "Start the server from its list of MCP servers; `MCP: Reset Cached Tools` clears old ones.",
		Limits: Limits{Searches: "groups tools that are many, and shows a group when its model opens it", Tools: 128, Name: 64, Prefix: "mcp_NAME_", Over: "shortens it", Chars: "A-Za-z0-9_-", Timeout: "none"},
	},
	{
		Name: "windsurf", Title: "Windsurf", Section: []string{"mcpServers"}, Reference: "${env:NAME}",
		Files: []File{user("{home}/.codeium/windsurf/mcp_config.json"), user("{home}/.codeium/mcp_config.json")},
		Stdio: plain, Remote: remote("", "serverUrl", "headers"), After: "Refresh its list of MCP servers.",
		Limits: Limits{Tools: 100, Timeout: "not published"},
	},
	{
		Name: "zed", Title: "Zed", Section: []string{"context_servers"},
		Files: []File{project(".zed/settings.json"), {Scope: "user", Path: "{home}/.config/zed/settings.json", Windows: "{config}/Zed/settings.json"}},
		Stdio: plain, Remote: remote("", "url", "headers"), After: "It notices the change by itself.",
		Limits: Limits{Name: 64, Over: "leaves the tool out", Timeout: "60 seconds"},
	},
}

// Entry is the name of toolgate in a client's file.
const Entry = "toolgate"

func plain(command string, args []string) edit.Map {
	return edit.Map{{Key: "command", Value: command}, {Key: "args", Value: args}}
}

func typed(kind string) func(string, []string) edit.Map {
	return func(command string, args []string) edit.Map {
		return append(edit.Map{{Key: "type", Value: kind}}, plain(command, args)...)
	}
}

// remote returns entries with a URL and headers, and with a type if it is not empty.
func remote(kind, url, headers string) func(string, Key) edit.Map {
	return func(address string, key Key) edit.Map {
		var m edit.Map
		if kind != "" {
			m = append(m, edit.Field{Key: "type", Value: kind})
		}
		m = append(m, edit.Field{Key: url, Value: address})
		if key.Reference != "" {
			m = append(m, edit.Field{Key: headers, Value: bearer(key)})
		}
		return m
	}
}

func bearer(key Key) edit.Map {
	return edit.Map{{Key: "Authorization", Value: "Bearer " + key.Reference}}
}

func continueFile(server edit.Map) edit.Map {
	return edit.Map{
		{Key: "name", Value: "toolgate"},
		{Key: "version", Value: "1.0.0"},
		{Key: "schema", Value: "v1"},
		{Key: "mcpServers", Value: []edit.Map{server}},
	}
}
