package upstream

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// Protocol is which era of MCP is spoken to a server.
type Protocol string

// The protocols. ProtocolAuto asks the server once and remembers.
const (
	ProtocolAuto   Protocol = "auto"
	ProtocolLegacy Protocol = "legacy" // 2025-11-25 and before
	ProtocolModern Protocol = "modern" // 2026-07-28 and after
)

// Era returns the era; unknown where the server is asked.
func (p Protocol) Era() mcp.Era {
	switch p {
	case ProtocolLegacy:
		return mcp.Legacy
	case ProtocolModern:
		return mcp.Modern
	case ProtocolAuto:
	}
	return mcp.EraUnknown
}

// Isolation is who shares a connection (ADR 0003).
type Isolation string

// The isolations. IsolateAuto shares connections to modern servers and gives every
// principal its own connection to legacy ones.
const (
	IsolateAuto      Isolation = "auto"
	IsolateShared    Isolation = "shared"
	IsolatePrincipal Isolation = "principal"
	IsolateSession   Isolation = "session"
)

// Defaults of what the settings of a server leave out.
const (
	DefaultStart         = 30 * time.Second
	DefaultLauncherStart = 60 * time.Second // for npx, uvx, docker and the like, which may download first
	DefaultList          = 10 * time.Second
	DefaultCall          = 120 * time.Second
	DefaultHard          = 30 * time.Minute
	DefaultConcurrency   = 32
	DefaultProcesses     = 8
	DefaultConnections   = 256 // to a server that is not a process of the gateway's
)

// Timeouts bound the waits for one server. Defaults replace zero values.
type Timeouts struct {
	// Time until the server must have answered its first request. Default: 30s, or 60s for commands that may download
	// first.
	Start time.Duration `config:"start" min:"1ms" max:"24h"`
	// Time for all lists of the server together. Default: 10s.
	List time.Duration `config:"list" min:"1ms" max:"24h"`
	// Timeout of a call that reports no progress. Default: 120s.
	Call time.Duration `config:"call" min:"1ms" max:"24h"`
	// Longest silence of a call that reports progress. Default: the value of call.
	Idle time.Duration `config:"idle" min:"1ms" max:"24h"`
	// Timeout of every call, even if it reports progress. Default: 30m, or call if that is longer.
	Hard time.Duration `config:"hard" min:"1ms" max:"24h"`

	// Think is how long a suspended call keeps its connection from calls that find none; a
	// minute divided by Limits.Conns, at least 10 s.
	Think time.Duration `config:"-" json:"-"`
}

// ServerLimits are the settings of the section limits that bound what one server may send.
type ServerLimits struct {
	// Largest answer of a server. Default: 32MiB.
	Result units.Size `config:"result" default:"32MiB" min:"1KiB" max:"1GiB"`
	// Longest line of a stdio server or client. Default: 32MiB.
	Line units.Size `config:"line" default:"32MiB" min:"1KiB" max:"1GiB"`
	// Tools, prompts or resources that one server may list. Default: 5000.
	Items int `config:"tools" default:"5000" min:"1" max:"1000000"`
	// Pages of one list. Default: 1000.
	Pages int `config:"pages" default:"1000" min:"1" max:"100000"`
	// Total bytes that one server may list. Default: 64MiB.
	Catalog units.Size `config:"catalog" default:"64MiB" min:"1KiB" max:"4GiB"`
}

// Sandbox is what a confined process of a server may reach.
type Sandbox struct {
	// Files and folders that the server may read, with everything in them. Default: what programs need to run.
	Read []string `config:"read" format:"path"`
	// Files and folders that the server may change. Default: only a private temporary folder.
	Write []string `config:"write" format:"path"`
	// Files and folders that the server may execute beside its program. Default: the programs of the system.
	Run []string `config:"run" format:"path"`
	// Whether the server may execute what it writes into its private folder, as npx and uvx do with what they download at
	// the start. Default: false.
	RunOwn bool `config:"run_own"`
	// What the server may reach on the network. Default: none.
	Network string `config:"network" enum:"none|full"`
}

// Policy returns the policy of the process. programs are those of the system. The process
// has no limits: an operator who wants some has the system's.
func (s *Sandbox) Policy(programs []string) *sandbox.Policy {
	p := &sandbox.Policy{
		Mode: sandbox.Required, Read: s.Read, Write: s.Write, Run: s.Run, Temp: true, TempRun: s.RunOwn, Unlimited: true,
	}
	if p.Run == nil {
		p.Run = programs
	}
	if s.Network == "full" {
		p.Network = sandbox.FullNetwork
	}
	return p
}
