package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// Client is whose file a configuration is. Files of clients that differ in
// nothing that matters here are ClientOther.
type Client string

// The clients whose files are told apart.
const (
	ClientOther         Client = ""
	ClientClaudeDesktop Client = "claude-desktop"
	ClientClaudeCode    Client = "claude-code"
	ClientVSCode        Client = "vscode"
	ClientCursor        Client = "cursor"
	ClientWindsurf      Client = "windsurf"
	ClientZed           Client = "zed"
	ClientGoose         Client = "goose"
	ClientCodex         Client = "codex"
	ClientGemini        Client = "gemini"
	ClientContinue      Client = "continue"
	ClientCline         Client = "cline"
	ClientRoo           Client = "roo"
	ClientOpenCode      Client = "opencode"
	ClientAmp           Client = "amp"
	ClientVibe          Client = "vibe"
)

// clientByPath tells clients that share the key mcpServers apart by the name of
// the file or of its folder.
func clientByPath(name string) Client {
	parts := strings.Split(strings.ToLower(filepath.ToSlash(name)), "/")
	base, dirs := parts[len(parts)-1], parts[:len(parts)-1]
	parent := ""
	if len(dirs) > 0 {
		parent = dirs[len(dirs)-1]
	}
	in := func(dir string) bool { return slices.Contains(dirs, dir) }
	switch {
	case base == "claude_desktop_config.json":
		return ClientClaudeDesktop
	case base == ".mcp.json" || base == ".claude.json" || base == "managed-mcp.json":
		return ClientClaudeCode
	case base == "cline_mcp_settings.json" || parent == ".cline" || in("saoudrizwan.claude-dev"):
		return ClientCline
	case base == "mcp_settings.json" || parent == ".roo":
		return ClientRoo
	case parent == ".cursor":
		return ClientCursor
	case parent == ".vscode":
		return ClientVSCode
	case in(".codeium"):
		return ClientWindsurf
	case parent == ".gemini" && base == "settings.json":
		return ClientGemini
	case in(".continue"):
		return ClientContinue
	}
	return ClientOther
}

// clientByEntries recognises spellings that one client alone uses.
func clientByEntries(servers *tree.Node) Client {
	for _, f := range servers.Fields {
		e := f.Value
		switch {
		case e.Get("httpUrl") != nil:
			return ClientGemini
		case e.Get("serverUrl") != nil:
			return ClientWindsurf
		case e.Get("alwaysAllow") != nil:
			return ClientRoo
		}
		if t := e.Get("type"); t != nil && t.Value == "streamableHttp" {
			return ClientCline
		}
	}
	return ClientOther
}

// projectFolders are folders in a project that hold one client's files.
var projectFolders = []string{".vscode", ".cursor", ".roo", ".claude", ".continue", ".gemini", ".codex", ".kiro", ".zed", ".amp", ".vibe", ".opencode", ".windsurf", ".devcontainer", "mcpServers"}

// Workspace is what ${workspaceFolder} means in a file of a folder: the folder, or the one
// above it where it is a client's own (.vscode, .cursor and the like). In the home folder
// it is "".
func Workspace(dir, home string) string {
	for slices.Contains(projectFolders, filepath.Base(dir)) {
		dir = filepath.Dir(dir)
	}
	if home != "" && filepath.Clean(home) == dir {
		return ""
	}
	return dir
}
