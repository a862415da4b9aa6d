package config

import (
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem@2026.1.1 /data":  "@modelcontextprotocol/server-filesystem",
		"npx --package=@playwright/mcp@latest mcp":                       "@playwright/mcp",
		"npx -y -p @playwright/mcp mcp":                                  "@playwright/mcp",
		"cmd /c npx -y @upstash/context7-mcp":                            "@upstash/context7-mcp",
		"npm exec -- @playwright/mcp":                                    "@playwright/mcp",
		"pnpm dlx @playwright/mcp":                                       "@playwright/mcp",
		"/usr/bin/uvx mcp-server-git==1.2 --repository mcp-server-time":  "mcp-server-git",
		"uvx --from mcp-server-git@latest other":                         "mcp-server-git",
		"uv --directory /src/git run mcp-server-git":                     "mcp-server-git",
		"uv tool run mcp-server-time":                                    "mcp-server-time",
		"pipx run mcp-server-time":                                       "mcp-server-time",
		"python3 -m mcp_server_git --repository /x":                      "mcp-server-git",
		"python3 server.py":                                              "",
		"docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server:1": "ghcr.io/github/github-mcp-server",
		"docker run -v /a:/b --mount type=bind,src=/x,dst=/y mcp/git":    "mcp/git",
		"podman run alpine":                                              "",
		"/opt/mcp-server-git.exe":                                        "mcp-server-git",
		"npx":                                                            "",
		"uv":                                                             "",
	} {
		words := strings.Fields(line)
		s := Server{Command: words[0], Args: words[1:]}
		if got := s.Program(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for url, want := range map[string]string{
		"https://API.githubcopilot.com/mcp/": "api.githubcopilot.com",
		"http://api.githubcopilot.com/mcp/":  "", // nobody knows who answers
		"https://%zz":                        "",
	} {
		s := Server{URL: url}
		if got := s.Program(); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
