package doctor

import (
	"fmt"
	"io"
	"slices"
)

// Level is how bad a finding is. The zero value is not one.
type Level string

// The levels.
const (
	Error   Level = "error"   // something does not work
	Warning Level = "warning" // something works, and may not for long or as meant
)

// Code is a kind of finding.
type Code struct {
	ID    string `json:"code"` // never changes its meaning
	Level Level  `json:"level"`
	Title string `json:"title"` // what is wrong, in a few words
	Means string `json:"means"` // what follows from it
	Fix   string `json:"fix"`   // what to do, where a finding has nothing more exact to say
}

// group is a hundred of codes about one thing.
type group struct {
	prefix, title string
	codes         []Code
}

// The codes of findings. A code that is given up is not used again.
const (
	CodeFile           = "TG1101"
	CodeNamespace      = "TG1102"
	CodeUnset          = "TG1103"
	CodeRefused        = "TG1104"
	CodeNoServers      = "TG1105"
	CodeNames          = "TG1106"
	CodeReadable       = "TG1107"
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
		{CodeFile, Error, "the file cannot be used", "Nothing starts: the file cannot be read, is malformed, or says something that toolgate does not know.", "Correct what is named, and run `toolgate validate`."},
		{CodeNamespace, Error, "two servers with one namespace", "Their tools would have the same names, so nothing starts.", "Give one of them another: toolgate.servers.NAME.namespace."},
		{CodeUnset, Error, "a variable is not set", "The server that uses it is refused; the others start.", "Set the variable where toolgate is started, or write it into the .env file beside the configuration (mode 0600)."},
		{CodeRefused, Error, "a server cannot be started as written", "It is refused; the others start.", "Correct its entry."},
		{CodeNoServers, Warning, "no servers", "toolgate starts and offers nothing.", "Add one with `toolgate add NAME -- COMMAND`, or bring in those of your clients with `toolgate import`."},
		{CodeNames, Error, "a rule is about nothing", "A rule that names nothing that is offered protects nothing.", "Correct the name; `toolgate tools` lists those that are offered."},
		{CodeReadable, Warning, "others can read a secret", "The file spells out a credential, and other users of this machine can read it.", "Take it from them with `chmod 600`, and write ${NAME} instead of the secret."},
	}},
	{"TG12", "Who may do what", []Code{
		{CodeGate, Error, "the gate cannot be made", "Nothing starts, because what decides about calls is not usable.", "Correct what is named, and run `toolgate validate`."},
		{CodeNoDecision, Error, "the policy does not have the rule that decides", "It would deny everything without a word, so nothing starts.", "Write the rule, such as `decision := {\"allow\": true}` in the package toolgate, or name the one that decides: toolgate.opa.decision."},
		{CodeSpiceDB, Error, "the SpiceDB does not answer", "Calls are refused while it does not.", "See that it runs, and that spicedb.endpoint, token and tls are right."},
		{CodeSpiceDBSchema, Error, "the schema of the SpiceDB lacks something", "What is asked for does not exist there, so nothing of it is allowed.", "Write the schema; `toolgate spicedb check` says what is missing."},
		{CodeIdentity, Error, "callers cannot be told apart", "What authenticates callers cannot be set up, so nothing starts.", "Correct what is named under toolgate.auth."},
		{CodeIssuer, Warning, "an issuer does not answer", "Its tokens are refused while its keys are not known.", "See that the issuer runs and that this machine reaches it."},
		{CodePolicyFails, Error, "the policy cannot decide about something", "It is denied, and hidden from those about whom the policy could not decide.", "Give the rule that decides a default, and see that what fails in it cannot; `toolgate why NAME --as CALLER` shows the error."},
	}},
	{"TG21", "Servers that are programs", []Code{
		{CodeNoCommand, Error, "the command is not found", "The server cannot be started.", "Install it, give its full path, or set PATH in the env of the server: toolgate does not hand on every variable of its own."},
		{CodeArchitecture, Error, "the program is for another machine", "The system does not run it.", "Install the build for this system and processor."},
		{CodeNotExecutable, Error, "the program may not be executed", "The system does not run it.", "`chmod +x` it, or write the interpreter in front of it."},
		{CodeNoNode, Error, "Node is not installed", "Servers that are started with npx or node cannot run.", "Install Node 20 or newer (nodejs.org), and see that npx is in the PATH that toolgate is started with."},
		{CodeNoUV, Error, "uv is not installed", "Servers that are started with uvx or uv cannot run.", "Install uv (docs.astral.sh/uv), and see that uvx is in the PATH that toolgate is started with."},
		{CodeNoDocker, Error, "Docker is not installed", "Servers that are started with docker cannot run.", "Install Docker or Podman, and see that it is in the PATH that toolgate is started with."},
		{CodeNoFolder, Error, "the working folder does not exist", "The server cannot be started in it.", "Make the folder, or correct cwd."},
		{CodeInterpreter, Error, "the interpreter of a script is missing", "The system does not run the script.", "Install what its first line names, or correct that line."},
		{CodeFailing, Error, "a server of the running gateway fails", "It is not called until it works again.", "`toolgate logs NAME` shows what it wrote."},
		{CodeUnconfined, Error, "this machine cannot confine it", "It runs code or commands that a caller has a say in, or is to be confined whatever it costs, so it does not run here.", "Run the gateway where the missing layers are to be had (see docs/sandbox.md), or write `sandbox: auto` there: then it runs with what this machine has, down to nothing."},
		{CodeLoose, Warning, "it runs with less confinement than it should", "`sandbox: auto`, which plugins have unless the file says otherwise, lets it run with what this machine has: it may get at what the gateway can.", "Run the gateway where the missing layers are to be had (see docs/sandbox.md), and write `sandbox: required`."},
	}},
	{"TG22", "Servers that are elsewhere", []Code{
		{CodeUnreachable, Error, "nothing answers at the address", "The server cannot be used.", "See that it runs, that the address is right, and that nothing between blocks it."},
		{CodeUnauthorized, Error, "the server wants another credential", "It answers 401 to what is sent.", "Write a token that holds good into the headers of the server, as ${NAME}."},
		{CodeExpired, Error, "a token has expired", "Whoever gets it refuses it.", "Get a new one, and set the variable that holds it."},
		{CodeServerCert, Error, "the certificate of the server is not accepted", "Nothing is sent to it.", "Have it renewed, or name its authority to this system."},
		{CodeNoHost, Error, "the host is not known", "Its name has no address.", "Correct the name, or see that this machine's DNS works."},
		{CodeForbidden, Error, "the server refuses the credential", "It answers 403: it knows who calls, and does not let them.", "Get a token with the rights that the server asks for."},
		{CodeServerFault, Warning, "the server fails", "It answers with a fault of its own.", "Ask whoever runs it."},
		{CodeNotThere, Error, "there is no MCP at the address", "The server answers that it has nothing there.", "Correct the path of the url; many servers have it at /mcp."},
		{CodeLogin, Warning, "the server wants people to sign in", "It answers 401, and its entry has no credential: until somebody has signed in, it offers nothing.", "Run `toolgate login NAME`; `toolgate logins` shows who is signed in where."},
		{CodeAssertion, Error, "what proves the workload cannot be used", "toolgate gets no token for the server.", "Have the platform write it there, and let toolgate read it: `auth.assertion` of the server."},
	}},
	{"TG31", "This machine", []Code{
		{CodePort, Error, "the port is taken", "The gateway cannot listen.", "End what has it, or choose another: `--listen 127.0.0.1:0`, or toolgate.listen.http."},
		{CodeClock, Error, "the clock is wrong", "Tokens seem expired, or not to hold good yet, and certificates too.", "Set the clock; have it kept by NTP."},
		{CodeOpen, Warning, "the network may reach the gateway, and nobody has to say who they are", "At its start an API key is made, which everyone needs who comes over the network.", "Configure toolgate.auth, or listen on 127.0.0.1 alone."},
		{CodeCertExpired, Error, "the gateway's certificate does not hold good", "Clients refuse the connection.", "Renew it, and run `toolgate reload`."},
		{CodeCertSoon, Warning, "the gateway's certificate ends soon", "Clients will refuse the connection then.", "Renew it, and run `toolgate reload`."},
		{CodeCertUnusable, Error, "the gateway's certificate cannot be read", "The gateway cannot listen.", "Name the PEM files of one certificate and of its key: listen.tls.cert and listen.tls.key."},
		{CodeAddress, Error, "the address cannot be listened on", "The gateway cannot listen.", "Choose an address of this machine that you may use."},
	}},
	{"TG32", "What is kept", []Code{
		{CodeState, Error, "the state folder cannot be written", "Nothing starts: what outlives a run is kept there.", "Make it writable, or set TOOLGATE_STATE to a folder that is."},
		{CodeStoreHeld, Error, "the store is held by another process", "Only one gateway may write it.", "End the other one, or give this one a store of its own: toolgate.store."},
		{CodeAudit, Error, "the audit log cannot be written", "Where it is required, every call is refused.", "Make the file and its folder writable, or name another: toolgate.audit.path."},
		{CodeDisk, Warning, "the disk is almost full", "The store and the audit log need room.", "Make room."},
		{CodeStore, Error, "the store cannot be opened", "Nothing that needs it works.", "See that it is there and may be read and written: toolgate.store."},
		{CodeKey, Error, "a key cannot be read", "Nothing starts: what clients carry is sealed with it.", "Make it, such as with `openssl rand -hex 32`: toolgate.keys."},
		{CodeAuditHeld, Error, "the audit log is held by another process", "Only one gateway may write it: two would spoil each other's chain.", "End the other one, or give this one a log of its own: toolgate.audit.path."},
		{CodeNotReady, Warning, "the running gateway is not ready", "Something that it needs to decide is missing.", "See `toolgate status`."},
	}},
	{"TG33", "Plugins", []Code{
		{CodePlugin, Error, "a plugin is not there", "Its tools are not offered.", "Install it, or correct toolgate.native.plugins.NAME.path."},
		{CodePluginChecksum, Error, "a plugin is not the one that was named", "It is not started: its SHA-256 is another than the one in the file.", "See who changed it. If you did, write its new SHA-256: toolgate.native.plugins.NAME.sha256."},
	}},
	{"TG41", "Clients", []Code{
		{CodeShadowed, Warning, "a client's file is shadowed by another", "The client has two entries of one name and uses one of them.", "Remove the one that is not meant."},
		{CodeClientFile, Warning, "a client's file is malformed", "The client does not read it, and toolgate cannot import it.", "Correct it."},
		{CodeClientCommand, Error, "a client starts a toolgate that is not there", "The client has no servers.", "Run `toolgate connect CLIENT` again."},
		{CodeOtherFile, Warning, "another configuration is used than the one that is there", "The variable TOOLGATE_CONFIG, or the file in this folder, comes before the one under your configuration folder.", "Remove the one that is not meant, or name it with --config."},
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

` + "`toolgate doctor`" + ` looks at a configuration, at this machine and at the clients on it,
and says what does not work and what to do. It starts no server and changes
nothing. Each finding has a code that keeps its meaning; ` + "`toolgate doctor explain CODE`" + `
prints what stands here. With a finding of the level error it ends with exit code 2.

This page is written from the table of the program (` + "`go generate ./cmd/toolgate/cli`" + `).
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
