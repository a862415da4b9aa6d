package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/transport"
)

// transport decides how the server is reached: by its type where it has one,
// else by what it names. A URL without a type is upstream.Auto, except in
// Gemini's files, where "url" is the older SSE transport and "httpUrl" the
// newer one, and in Cline's, where a missing type has always meant SSE. VS Code
// falls back to SSE for its type http, so that is upstream.Auto too.
func (x *reading) transport() {
	typeKey, typ := x.first("type", "transport", "transportType")
	_, cmd := x.first("command", "cmd")
	urlKey, url := x.first("httpUrl", "serverUrl", "url", "uri")
	if typ != nil && typ.Kind != tree.KindString {
		x.refuse(typ, typeKey, "", "expected text, found %s", typ.Kind)
		return
	}
	if typ != nil {
		x.origin("transport", typ)
		switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(typ.Value)) {
		case "stdio", "local":
			x.s.Transport = upstream.Stdio
		case "http", "streamablehttp":
			x.s.Transport = upstream.Streamable
			if x.File.Client == ClientVSCode {
				x.s.Transport = upstream.Auto
			}
		case "sse":
			x.s.Transport = upstream.SSE
		case "remote":
			x.s.Transport = upstream.Auto
		case "ws", "websocket":
			x.refuse(typ, typeKey, "", "WebSocket is not a transport of MCP and is not supported; ask the server's maker for an http address")
			return
		default:
			if _, ok := transport.KindOf(typ.Value); !ok {
				x.refuse(typ, typeKey, "write stdio, http or sse", "%.40q is not a supported transport", typ.Value)
				return
			}
			x.s.Transport = upstream.Transport(typ.Value)
		}
	} else {
		switch {
		case cmd != nil && url != nil:
			x.refuse(cmd, "", "remove one, or add type: stdio or type: http", "names both a command and a %s", urlKey)
			return
		case cmd != nil:
			x.s.Transport = upstream.Stdio
		case urlKey == "httpUrl":
			x.s.Transport = upstream.Streamable
		case url != nil && (x.File.Client == ClientGemini && urlKey == "url" || x.File.Client == ClientCline):
			x.s.Transport = upstream.SSE
		case url != nil:
			x.s.Transport = upstream.Auto
		case x.File.Client == ClientZed:
			x.refuse(nil, "", "add command and args", "its command comes from a Zed extension, which exists only in Zed")
			return
		default:
			x.refuse(nil, "", "add command: ... or url: ...", "names neither a command nor a url")
			return
		}
	}
	if x.s.Transport == upstream.Stdio && cmd == nil {
		x.refuse(nil, "command", "add command: ...", "a stdio server needs a command")
	}
	if x.s.Transport != upstream.Stdio && url == nil {
		x.refuse(nil, "url", "add url: ...", "a remote server needs a url")
	}
}

// command reads what to start, in the three shapes clients have: a text with
// args, one list, and Zed's older map of path, args and env.
func (x *reading) command() {
	if x.s.Transport != upstream.Stdio {
		return
	}
	key, cmd := x.first("command", "cmd")
	if cmd == nil {
		return
	}
	x.origin("command", cmd)
	var args []*tree.Node
	argsNode := x.Node.Get("args")
	switch cmd.Kind {
	case tree.KindList:
		if len(cmd.Items) == 0 {
			x.refuse(cmd, key, "", "the command is empty")
			return
		}
		args = cmd.Items[1:]
		cmd = cmd.Items[0]
	case tree.KindMap:
		argsNode = cmd.Get("args")
		if cmd = cmd.Get("path"); cmd.IsNull() {
			x.refuse(nil, key+".path", "add path: ...", "the command has no path")
			return
		}
	default: // a text; everything else is refused when it is read as one
	}
	switch {
	case argsNode.IsNull():
	case !argsNode.IsList():
		x.refuse(argsNode, "args", "put it in [ ]", "expected a list, found %s", argsNode.Kind)
	default:
		x.origin("args", argsNode)
		args = append(slices.Clone(args), argsNode.Items...)
	}
	x.s.Command = x.text(key, cmd)
	x.s.Written.Command = cmd.Value
	for _, a := range args {
		x.s.Args = append(x.s.Args, x.scalar("args", a))
		x.s.Written.Args = append(x.s.Written.Args, a.Value)
	}
	switch ext := strings.ToLower(filepath.Ext(x.s.Command)); {
	case cmd.Kind == tree.KindString && strings.TrimSpace(cmd.Value) == "":
		x.refuse(cmd, key, "", "the command is empty")
	case ext == ".mcpb" || ext == ".dxt":
		x.refuse(cmd, key, "unpack it and name the command inside", "a %s bundle can be installed by its own client only", ext)
	}
	if n := x.Node.Get("cwd"); !n.IsNull() {
		x.origin("cwd", n)
		if cwd := x.text("cwd", n); cwd != "" {
			x.s.Cwd = x.absolute(cwd)
		}
	}
	if n := x.Node.Get("sandboxEnabled"); n != nil && n.Value == "true" {
		x.warn(n, "sandboxEnabled", "toolgate does not run this server in a sandbox")
	}
}

// absolute resolves a path of an entry: "~/" is the home folder, everything
// relative is relative to the workspace, else to the file.
func (x *reading) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && x.Vars.Home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return filepath.Join(x.Vars.Home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	base := x.Dir
	if x.Vars.Workspace != "" {
		base = x.Vars.Workspace
	}
	return filepath.Join(base, path)
}

// address reads the URL of a remote server.
func (x *reading) address() {
	if x.s.Transport == upstream.Stdio || x.s.Transport == "" {
		return
	}
	key, n := x.first("httpUrl", "serverUrl", "url", "uri")
	if n == nil {
		return
	}
	x.origin("url", n)
	x.s.URL = x.text(key, n)
	x.s.Written.URL = n.Value
	kind, _ := transport.KindOf(string(x.s.Transport))
	switch {
	case kind.Scheme != "":
		if !strings.HasPrefix(x.s.URL, kind.Scheme+"://") {
			x.refuse(n, key, "write it as "+kind.Scheme+"://...", "the url is not an address of the transport %s", x.s.Transport)
		}
	case x.s.URL == "":
		if n.Value == "" {
			x.refuse(n, key, "", "the url is empty")
		}
	case strings.HasPrefix(x.s.URL, "unix:") || strings.HasPrefix(x.s.URL, "pipe:"):
		x.refuse(n, key, "write an http or https address", "local sockets and pipes are not supported")
	default:
		if err := decode.CheckURL(x.s.URL); err != nil {
			x.refuse(n, key, "write it as https://host/path", "the url %v", err)
		}
	}
}
