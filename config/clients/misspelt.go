package clients

import (
	"slices"

	"github.com/toolgate/toolgate/internal/spelling"
)

// entryKeys are the keys that a client gives to the entry of a server. Some are not read
// here, but they are no mistakes.
var entryKeys = []string{
	"alwaysAllow", "api_key_env", "api_key_format", "api_key_header", "args", "auth", "authProviderType", "autoApprove",
	"available_tools", "bearer_token_env_var", "bundled", "cmd", "command", "cwd", "description", "dev", "disabled",
	"disabled_tools", "disabledTools", "display_name", "enabled", "enabled_tools", "env", "env_http_headers", "env_keys",
	"env_vars", "envFile", "environment", "envs", "excludeTools", "gallery", "headers", "headersHelper", "http_headers",
	"httpUrl", "includeTools", "name", "oauth", "requestOptions", "sandbox", "sandboxEnabled", "serverUrl", "source",
	"startup_timeout_ms", "startup_timeout_sec", "timeout", "tool_timeout_sec", "tools", "transport", "transportType",
	"trust", "type", "uri", "url", "version",
}

// misspelt warns of keys that no client has and that look like one that does something:
// clients ignore them, and the server starts without what they say.
func (x *reading) misspelt() {
	for _, f := range x.Node.Fields {
		if slices.Contains(entryKeys, f.Key) {
			continue
		}
		for _, known := range entryKeys {
			if spelling.Misspelt(f.Key, known) {
				x.warn(f.Value, f.Key, "no client has this key, and it is ignored; did you mean "+known+"?")
				break
			}
		}
	}
}
