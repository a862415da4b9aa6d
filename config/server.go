package config

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/transport"
)

// serverReader turns entries of one file into servers.
type serverReader struct {
	file     string
	dir      string // relative folders and env files are relative to it
	client   Client
	vars     *expander
	warnings *[]tree.Warning
	files    *[]string
	origins  map[string]tree.Origin
}

// reading is the state of one entry being read.
type reading struct {
	*serverReader
	entry
	s       Server
	refused tree.Problems
}

// read turns one entry into a server. What makes it impossible to start is in
// Refused; a server that is disabled is never refused.
func (r *serverReader) read(e entry, settings ServerSettings, disabled bool) Server {
	x := &reading{serverReader: r, entry: e, refused: tree.Problems{File: r.file}}
	x.s = Server{Key: e.key, Line: e.line, Namespace: Namespace(e.key)}
	if !e.node.IsMap() {
		x.refuse(e.node, "", "write { command: ... } or { url: ... }", "expected a map, found %s", kindOf(e.node))
		x.s.Disabled = disabled
	} else {
		x.s.Disabled = disabled || x.switchedOff()
		x.vars.quiet = x.s.Disabled
		x.transport()
		x.command()
		x.environment()
		x.address()
		x.headers()
		x.tools()
		x.unsupported()
	}
	x.timeouts(settings.Timeouts)
	x.settings(settings)
	if !x.s.Disabled {
		x.s.Refused = x.refused.Err()
	}
	return x.s
}

func kindOf(n *tree.Node) tree.Kind {
	if n == nil {
		return tree.KindNull
	}
	return n.Kind
}

// refuse notes a reason why this server cannot be started.
func (x *reading) refuse(at *tree.Node, key, hint, form string, args ...any) {
	if at == nil {
		at = x.node
	}
	x.refused.At(at, tree.Join(x.path, key), hint, form, args...)
}

// warn notes something that does not keep the server from starting.
func (x *reading) warn(at *tree.Node, key, text string) {
	*x.warnings = append(*x.warnings, tree.Warning{File: x.file, Line: at.Line, Key: tree.Join(x.path, key), Text: text})
}

// origin notes where a value of the server came from.
func (x *reading) origin(key string, n *tree.Node) {
	x.origins["servers."+x.key+"."+key] = tree.OriginOf(x.file, n)
}

// first returns the first of several spellings of a key that is written.
func (x *reading) first(keys ...string) (string, *tree.Node) {
	for _, k := range keys {
		if n := x.node.Get(k); !n.IsNull() {
			return k, n
		}
	}
	return "", nil
}

// text reads a string and expands it.
func (x *reading) text(key string, n *tree.Node) string {
	if n.Kind != tree.KindString {
		x.refuse(n, key, "put it in quotes", "expected text, found %s", n.Kind)
		return ""
	}
	return x.expand(key, n)
}

// scalar reads text, a number or a boolean as text, as clients do for
// arguments and variables, and expands it.
func (x *reading) scalar(key string, n *tree.Node) string {
	if n.Kind != tree.KindString && n.Kind != tree.KindNumber && n.Kind != tree.KindBool {
		x.refuse(n, key, "", "expected text, found %s", n.Kind)
		return ""
	}
	return x.expand(key, n)
}

func (x *reading) expand(key string, n *tree.Node) string {
	v, err := x.vars.expand(n.Value)
	switch {
	case errors.Is(err, errQuiet):
		return ""
	case err != nil:
		x.refuse(n, key, "", "%v", err)
		x.refused.Because(err)
		return ""
	case strings.ContainsRune(v, 0):
		x.refuse(n, key, "", "a NUL character cannot be passed on")
		return ""
	}
	return v
}

// switchedOff reads both spellings; either can switch a server off.
func (x *reading) switchedOff() bool {
	off := false
	for key, want := range map[string]string{"disabled": "true", "enabled": "false"} {
		n := x.node.Get(key)
		if n.IsNull() {
			continue
		}
		if n.Kind != tree.KindBool {
			x.refuse(n, key, "write true or false", "expected true or false, found %s", n.Describe())
			continue
		}
		if n.Value == want {
			off = true
		}
		x.origin("disabled", n)
	}
	return off
}

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
			if x.client == ClientVSCode {
				x.s.Transport = upstream.Auto
			}
		case "sse":
			x.s.Transport = upstream.SSE
		case "remote":
			x.s.Transport = upstream.Auto
		case "ws", "websocket":
			x.refuse(typ, typeKey, "", "WebSocket is no transport of MCP and is not supported; ask the server's maker for an http address")
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
		case url != nil && (x.client == ClientGemini && urlKey == "url" || x.client == ClientCline):
			x.s.Transport = upstream.SSE
		case url != nil:
			x.s.Transport = upstream.Auto
		case x.client == ClientZed:
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
	argsNode := x.node.Get("args")
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
	if n := x.node.Get("cwd"); !n.IsNull() {
		x.origin("cwd", n)
		if cwd := x.text("cwd", n); cwd != "" {
			x.s.Cwd = x.absolute(cwd)
		}
	}
	if n := x.node.Get("sandboxEnabled"); n != nil && n.Value == "true" {
		x.warn(n, "sandboxEnabled", "toolgate does not run this server in a sandbox")
	}
}

// absolute resolves a path of an entry: "~/" is the home folder, everything
// relative is relative to the workspace, else to the file.
func (x *reading) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && x.vars.home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return filepath.Join(x.vars.home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	base := x.dir
	if x.vars.workspace != "" {
		base = x.vars.workspace
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
			x.refuse(n, key, "write it as "+kind.Scheme+"://...", "the url is no address of the transport %s", x.s.Transport)
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

// tools reads the lists of tools that clients include or exclude. Goose writes
// an empty list where it means all.
func (x *reading) tools() {
	read := func(field string, keys ...string) []string {
		key, n := x.first(keys...)
		if n == nil {
			return nil
		}
		if !n.IsList() {
			x.refuse(n, key, "put it in [ ]", "expected a list, found %s", n.Kind)
			return nil
		}
		if len(n.Items) == 0 && key == "available_tools" {
			return nil
		}
		x.origin(field, n)
		names := make([]string, 0, len(n.Items))
		for _, item := range n.Items {
			if item.Kind != tree.KindString {
				x.refuse(item, key, "", "expected the name of a tool, found %s", item.Kind)
				continue
			}
			names = append(names, item.Value)
		}
		return names
	}
	x.s.Include = read("include", "enabled_tools", "includeTools", "available_tools")
	x.s.Exclude = read("exclude", "disabled_tools", "excludeTools", "disabledTools")
}

// unsupported refuses what cannot work without something only the client has.
func (x *reading) unsupported() {
	_, authorized := x.s.Headers["Authorization"]
	if n := x.node.Get("headersHelper"); !n.IsNull() {
		x.refuse(n, "headersHelper", "write the header under headers, with ${NAME} for the secret", "toolgate does not run programs that make headers")
	}
	if n := x.node.Get("authProviderType"); !n.IsNull() && n.Value != "dynamic_discovery" && !authorized {
		x.refuse(n, "authProviderType", "write an Authorization header under headers, or toolgate.servers.NAME.auth", "this way to log in is %s", decode.NotAvailable)
	}
	if authorized || x.s.Transport == upstream.Stdio {
		return
	}
	for _, key := range [...]string{"oauth", "auth"} {
		if n := x.node.Get(key); n.IsMap() {
			x.signIn(key, n)
		}
	}
}

// signIn reads what clients write about signing in with OAuth: as which client, and
// for what.
func (x *reading) signIn(key string, n *tree.Node) {
	if e := n.Get("enabled"); e != nil && e.Value == "false" {
		return
	}
	own := &x.s.Auth
	own.Mode = credential.OAuth
	x.origin("auth", n)
	for _, f := range n.Fields {
		switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(f.Key)) {
		case "clientid":
			own.Client.ID = x.scalar(key+"."+f.Key, f.Value)
		case "clientsecret":
			own.Client.Secret = secret.Text(x.scalar(key+"."+f.Key, f.Value))
		case "scope", "scopes":
			if f.Value.IsList() {
				for _, item := range f.Value.Items {
					own.Scopes = append(own.Scopes, x.scalar(key+"."+f.Key, item))
				}
			} else if f.Value.Kind == tree.KindString {
				own.Scopes = strings.Fields(x.scalar(key+"."+f.Key, f.Value))
			}
		}
	}
}

// authentication lays what toolgate.servers.<key>.auth says over what the entry
// says.
func (x *reading) authentication(set credential.Auth) {
	if reflect.DeepEqual(set, credential.Auth{}) {
		return
	}
	x.s.Auth = set
	if x.s.Transport == upstream.Stdio && set.Mode != credential.Static {
		x.refuse(nil, "", "hand it what it needs under env", "toolgate.servers.%s.auth is for servers that are reached by a url", x.key)
	}
}

// settings lays what toolgate.servers.<key> says over what the client's entry
// says.
func (x *reading) settings(set ServerSettings) {
	s := &x.s
	if set.Namespace != nil {
		s.Namespace = *set.Namespace
	}
	s.Protocol, s.Isolation, s.PlainCatalog = ProtocolAuto, upstream.IsolateAuto, PlainAuto
	if set.Protocol != "" {
		s.Protocol = set.Protocol
	}
	if set.Isolation != "" {
		s.Isolation = set.Isolation
	}
	if set.PlainCatalog != "" {
		s.PlainCatalog = set.PlainCatalog
	}
	s.Concurrency, s.Processes = DefaultConcurrency, DefaultProcesses
	if s.URL != "" {
		s.Processes = DefaultConnections
	}
	if set.Concurrency != 0 {
		s.Concurrency = set.Concurrency
	}
	if set.Processes != 0 {
		s.Processes = set.Processes
	}
	s.EnvInherit = slices.Concat(s.EnvInherit, set.EnvInherit)
	slices.Sort(s.EnvInherit)
	s.EnvInherit = slices.Compact(s.EnvInherit)
	s.ClientRequests = set.ClientRequests
	s.Tools, s.Offer, s.RenamedFrom, s.Results = set.Tools, set.Offer, set.RenamedFrom, set.Results
	s.Breaker, s.Retry = set.Breaker, set.Retry
	x.authentication(set.Auth)
}
