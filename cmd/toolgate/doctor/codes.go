package doctor

import (
	"fmt"
	"io"
	"slices"
)

// Level is the severity of a finding. The zero value is not a level.
type Level string

// The levels.
const (
	Error   Level = "error"   // something does not work
	Warning Level = "warning" // something works, but may stop working or work differently than intended
)

// Code is a kind of finding.
type Code struct {
	ID    string `json:"code"` // never changes its meaning
	Level Level  `json:"level"`
	Title string `json:"title"` // what is wrong, in a few words
	Means string `json:"means"` // what follows from it
	Fix   string `json:"fix"`   // what to do, if a finding has no more exact advice
}

// group is a range of a hundred codes about one topic.
type group struct {
	prefix, title string
	codes         []Code
}

// The codes of findings. A code that is no longer used is not assigned again.
const (
	CodeFile           = "TG1101"
	CodeNamespace      = "TG1102"
	CodeUnset          = "TG1103"
	CodeRefused        = "TG1104"
	CodeNoServers      = "TG1105"
	CodeNames          = "TG1106"
	CodeReadable       = "TG1107"
	CodeNotAccepted    = "TG1108"
	CodeMisfit         = "TG1109"
	CodeGate           = "TG1201"
	CodeNoDecision     = "TG1202"
	CodeSpiceDB        = "TG1203"
	CodeSpiceDBSchema  = "TG1204"
	CodeIdentity       = "TG1205"
	CodeNoCommand      = "TG2101"
	CodeArchitecture   = "TG2102"
	CodeNotExecutable  = "TG2103"
	CodeNoNode         = "TG2104"
	CodeNoUV           = "TG2105"
	CodeNoDocker       = "TG2106"
	CodeNoFolder       = "TG2107"
	CodeInterpreter    = "TG2108"
	CodeFailing        = "TG2109"
	CodeUnconfined     = "TG2110"
	CodeLoose          = "TG2111"
	CodeUnreviewed     = "TG2112"
	CodeUnreachable    = "TG2201"
	CodeUnauthorized   = "TG2202"
	CodeExpired        = "TG2203"
	CodeServerCert     = "TG2204"
	CodeNoHost         = "TG2205"
	CodeForbidden      = "TG2206"
	CodeServerFault    = "TG2207"
	CodeNotThere       = "TG2208"
	CodeLogin          = "TG2209"
	CodeAssertion      = "TG2210"
	CodePort           = "TG3101"
	CodeClock          = "TG3102"
	CodeOpen           = "TG3103"
	CodeCertExpired    = "TG3104"
	CodeCertSoon       = "TG3105"
	CodeCertUnusable   = "TG3106"
	CodeAddress        = "TG3107"
	CodeState          = "TG3201"
	CodeStoreHeld      = "TG3202"
	CodeAudit          = "TG3203"
	CodeDisk           = "TG3204"
	CodeStore          = "TG3205"
	CodeKey            = "TG3206"
	CodeNotReady       = "TG3207"
	CodeAuditHeld      = "TG3208"
	CodePlugin         = "TG3301"
	CodePluginChecksum = "TG3302"
	CodeShadowed       = "TG4101"
	CodeClientFile     = "TG4102"
	CodeClientCommand  = "TG4103"
	CodeOtherFile      = "TG4104"
	CodeIssuer         = "TG1206"
	CodePolicyFails    = "TG1207"
)

// groups is the whole table, in the order of the page.
var groups = []group{
	{"TG11", "The file", []Code{
		{CodeFile, Error, "the file cannot be used", "Nothing starts: the file cannot be read, is malformed, or has a setting that toolgate does not know.", "Correct what is named, and run `toolgate validate`."},
		{CodeNamespace, Error, "two servers with one namespace", "Their tools would have the same names, so nothing starts.", "Give one of them another namespace: toolgate.servers.NAME.namespace."},
		{CodeUnset, Error, "a variable or secret is not set", "The server that uses it is refused; the others start.", "Set the variable where toolgate is started, or write it into the .env file beside the configuration (mode 0600). For ${keyring:NAME}, run `toolgate secret set NAME`."},
		{CodeRefused, Error, "a server cannot be started as written", "It is refused; the others start.", "Correct its entry."},
		{CodeNoServers, Warning, "no servers", "toolgate starts and offers nothing.", "Add one with `toolgate add NAME -- COMMAND`, or import those of your clients with `toolgate import`."},
		{CodeNames, Error, "a rule matches nothing", "A rule whose name matches nothing protects nothing.", "Correct the name; `toolgate tools` lists the names that are offered."},
		{CodeReadable, Warning, "others can read a secret", "The file contains a credential, and other users of this machine can read it.", "Deny others access with `chmod 600`, and write ${NAME} instead of the secret."},
		{CodeNotAccepted, Warning, "the file is not accepted", "toolgate.yaml was found in the working folder, where somebody else may have put it. It does not run, and no server in it is asked anything, because a request would have your credentials.", "Read it. If it is yours, run `toolgate trust`, or name it with --config."},
		{CodeMisfit, Error, "a step does not fit the tool that it calls", "The server lists the tool with a schema that the arguments of the step cannot fit. With authentication, policies or rules, the tool with steps is refused as a whole before it does anything, unless on_error lets the step fail.", "Correct `with` of the step; `toolgate tools show` prints the schema."},
	}},
	{"TG12", "Who may do what", []Code{
		{CodeGate, Error, "the gate cannot be built", "Nothing starts, because nothing could decide about calls.", "Correct what is named, and run `toolgate validate`."},
		{CodeNoDecision, Error, "the policy does not have the rule that decides", "It would silently deny everything, so nothing starts.", "Write the rule, such as `decision := {\"allow\": true}` in the package toolgate, or name the rule that decides: toolgate.opa.decision."},
		{CodeSpiceDB, Error, "SpiceDB does not answer", "Calls are refused until it answers.", "Check that it runs, and that spicedb.endpoint, token and tls are right."},
		{CodeSpiceDBSchema, Error, "the schema of SpiceDB lacks something", "Relations that the schema lacks cannot allow anything.", "Write the schema; `toolgate doctor` says what is missing."},
		{CodeIdentity, Error, "callers cannot be told apart", "Authentication cannot be set up, so nothing starts.", "Correct what is named under toolgate.auth."},
		{CodeIssuer, Warning, "an issuer does not answer", "Its tokens are refused while its keys are unknown.", "Check that the issuer runs and that this machine reaches it."},
		{CodePolicyFails, Error, "the policy cannot decide about something", "It is denied, and hidden from the callers for whom the policy could not decide.", "Give the deciding rule a default, and make sure that its conditions cannot fail; `toolgate why NAME --as CALLER` shows the error."},
	}},
	{"TG21", "Servers that are programs", []Code{
		{CodeNoCommand, Error, "the command is not found", "The server cannot be started.", "Install it, give its full path, or set PATH in the env of the server: toolgate does not pass on every variable of its own."},
		{CodeArchitecture, Error, "the program is for another machine", "The system does not run it.", "Install the build for this system and processor."},
		{CodeNotExecutable, Error, "the program is not executable", "The system does not run it.", "Run `chmod +x` on it, or write the interpreter in front of it."},
		{CodeNoNode, Error, "Node is not installed", "Servers that are started with npx or node cannot run.", "Install Node 20 or newer (nodejs.org), and make sure that npx is in the PATH that toolgate is started with."},
		{CodeNoUV, Error, "uv is not installed", "Servers that are started with uvx or uv cannot run.", "Install uv (docs.astral.sh/uv), and make sure that uvx is in the PATH that toolgate is started with."},
		{CodeNoDocker, Error, "Docker is not installed", "Servers that are started with docker cannot run.", "Install Docker or Podman, and make sure that it is in the PATH that toolgate is started with."},
		{CodeNoFolder, Error, "the working folder does not exist", "The server cannot be started in it.", "Create the folder, or correct cwd."},
		{CodeInterpreter, Error, "the interpreter of a script is missing", "The system does not run the script.", "Install what its first line names, or correct that line."},
		{CodeFailing, Error, "a server of the running gateway fails", "It is not called until it works again.", "`toolgate logs NAME` shows what it wrote."},
		{CodeUnconfined, Error, "this machine cannot confine it", "It runs code or commands that a caller influences, or its sandbox is required, or it is a server that has one, so it does not run here.", "Run the gateway where the missing layers exist (see docs/sandbox.md). For code, commands and plugins you can write `sandbox: auto`: then they run with what this machine has, down to nothing. A server that has a sandbox has no `auto`."},
		{CodeLoose, Warning, "it runs with less confinement than it should", "`sandbox: auto`, the default of plugins, lets it run with what this machine has. It may reach what the gateway can reach.", "Run the gateway where the missing layers exist (see docs/sandbox.md), and write `sandbox: required`."},
		{CodeUnreviewed, Warning, "definitions that nobody has accepted", "A server has added or changed definitions, or they look like prompt injection. What is held is hidden from clients. Without authentication, what only changed is served.", "`toolgate catalog diff NAME` shows what changed, and `toolgate catalog accept NAME` serves it. `toolgate catalog disable NAME` hides what is served. To hold every change, write toolgate.registry: { on_new: adopt, on_change: hold }."},
	}},
	{"TG22", "Remote servers", []Code{
		{CodeUnreachable, Error, "nothing answers at the address", "The server cannot be used.", "Check that it runs, that the address is right, and that nothing in between blocks it."},
		{CodeUnauthorized, Error, "the server wants another credential", "It answers 401 to the credential that toolgate sends.", "Write a valid token into the headers of the server, as ${NAME}."},
		{CodeExpired, Error, "a token has expired", "The server refuses it.", "Get a new one, and set the variable that holds it."},
		{CodeServerCert, Error, "the certificate of the server is not accepted", "Nothing is sent to it.", "Have it renewed, or add its authority to the trusted certificates of this system."},
		{CodeNoHost, Error, "the host is unknown", "Its name has no address.", "Correct the name, or check that this machine's DNS works."},
		{CodeForbidden, Error, "the server refuses the credential", "It answers 403: it knows who calls, and does not let them.", "Get a token with the rights that the server asks for."},
		{CodeServerFault, Warning, "the server fails", "It answers with an error of its own.", "Ask whoever runs it."},
		{CodeNotThere, Error, "there is no MCP at the address", "The server answers that it has nothing there.", "Correct the path of the url; many servers have it at /mcp."},
		{CodeLogin, Warning, "the server wants people to sign in", "It answers 401, and its entry has no credential: until somebody has signed in, it offers nothing.", "Run `toolgate login NAME`; `toolgate login` shows who is signed in where."},
		{CodeAssertion, Error, "the workload assertion cannot be used", "toolgate gets no token for the server.", "Have the platform write the assertion there, and let toolgate read it: `auth.assertion` of the server."},
	}},
	{"TG31", "This machine", []Code{
		{CodePort, Error, "the port is taken", "The gateway cannot listen.", "Stop the program that uses it, or choose another: `--listen 127.0.0.1:0`, or toolgate.listen.http."},
		{CodeClock, Error, "the clock is wrong", "Tokens and certificates seem to be expired or not valid yet.", "Set the clock; let NTP keep it right."},
		{CodeOpen, Warning, "the network may reach the gateway, and nobody has to authenticate", "At its start the gateway makes an API key, which everyone on the network needs.", "Configure toolgate.auth, or listen on 127.0.0.1 alone."},
		{CodeCertExpired, Error, "the gateway's certificate is not valid", "Clients refuse the connection.", "Renew it, and run `toolgate reload`."},
		{CodeCertSoon, Warning, "the gateway's certificate expires soon", "Clients will refuse the connection then.", "Renew it, and run `toolgate reload`."},
		{CodeCertUnusable, Error, "the gateway's certificate cannot be read", "The gateway cannot listen.", "Name the PEM files of one certificate and of its key: listen.tls.cert and listen.tls.key."},
		{CodeAddress, Error, "the gateway cannot listen on the address", "The gateway cannot listen.", "Choose an address of this machine that you may use."},
	}},
	{"TG32", "Files and store", []Code{
		{CodeState, Error, "the state folder cannot be written", "Nothing starts: persistent data is kept there.", "Make it writable, or set TOOLGATE_STATE to a folder that is."},
		{CodeStoreHeld, Error, "the store is held by another process", "Only one gateway may write it.", "Stop the other one, or give this one a store of its own: toolgate.store."},
		{CodeAudit, Error, "the audit log cannot be written", "If the audit log is required, every call is refused.", "Make the file and its folder writable, or choose another: toolgate.audit.path."},
		{CodeDisk, Warning, "the disk is almost full", "The store and the audit log need space.", "Free disk space."},
		{CodeStore, Error, "the store cannot be opened", "Nothing that needs it works.", "Check that it exists and can be read and written: toolgate.store."},
		{CodeKey, Error, "a key cannot be read", "Nothing starts: the state that clients carry is sealed with it.", "Create it, such as with `openssl rand -hex 32`: toolgate.keys."},
		{CodeAuditHeld, Error, "the audit log is held by another process", "Only one gateway may write it: two would break each other's chain.", "Stop the other one, or give this one a log of its own: toolgate.audit.path."},
		{CodeNotReady, Warning, "the running gateway is not ready", "Something that it needs to decide is missing.", "See `toolgate status`."},
	}},
	{"TG33", "Plugins", []Code{
		{CodePlugin, Error, "a plugin does not exist", "Its tools are not offered.", "Install it, or correct toolgate.native.plugins.NAME.path."},
		{CodePluginChecksum, Error, "a plugin has another checksum", "It is not started: its SHA-256 differs from the one in the file.", "Find out who changed it. If you did, write its new SHA-256: toolgate.native.plugins.NAME.sha256."},
	}},
	{"TG41", "Clients", []Code{
		{CodeShadowed, Warning, "a client's file is shadowed by another", "The client has two entries of one name and uses one of them.", "Remove the one that you do not want."},
		{CodeClientFile, Warning, "a client's file is malformed", "The client does not read it, and toolgate cannot import it.", "Correct it."},
		{CodeClientCommand, Error, "a client starts a toolgate that does not exist", "The client has no servers.", "Run `toolgate connect CLIENT` again."},
		{CodeOtherFile, Warning, "another configuration is used than the one in your configuration folder", "The variable TOOLGATE_CONFIG, or the file in this folder, takes precedence over the one in your configuration folder.", "Remove the one that you do not want, or choose one with --config."},
	}},
}

// Codes returns the table, sorted by code.
func Codes() []Code {
	var all []Code
	for _, g := range groups {
		all = append(all, g.codes...)
	}
	slices.SortFunc(all, func(a, b Code) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return all
}

// Find returns the code of an id.
func Find(id string) (Code, bool) {
	for _, c := range Codes() {
		if c.ID == id {
			return c, true
		}
	}
	return Code{}, false
}

// WritePage writes the table as a page of the documentation.
func WritePage(w io.Writer) error {
	const head = `# What ` + "`toolgate doctor`" + ` finds

` + "`toolgate doctor`" + ` checks a configuration, this machine and the clients on it. It says what
does not work and how to fix it. It starts no server and changes nothing. Each finding has
a code that keeps its meaning; ` + "`toolgate doctor explain CODE`" + `
prints the text of this page. The exit code is 2 if a finding has the level error.

This page is generated from the table of the program (` + "`go generate ./cmd/toolgate/cli`" + `).
`
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	for _, g := range groups {
		if _, err := fmt.Fprintf(w, "\n## %s: %sxx\n", g.title, g.prefix); err != nil {
			return err
		}
		for _, c := range g.codes {
			if _, err := fmt.Fprintf(w, "\n### %s: %s\n\nLevel: %s. %s\n\nWhat to do: %s\n", c.ID, c.Title, c.Level, c.Means, c.Fix); err != nil {
				return err
			}
		}
	}
	return nil
}
