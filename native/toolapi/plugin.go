package toolapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Plugin is a group of tools that one process serves. It is filled before it is served,
// and not changed then, but for the tools that Init adds.
type Plugin struct {
	name, version string
	tools         []Tool
	err           error // the first mistake in what was added
	fixed         int   // tools that were there before the first Open
	opened        bool

	// Init is given the configuration, a JSON object, before anything is called. It may
	// add tools that depend on it. Its error ends the start and is shown to the operator.
	// Nil ignores the configuration.
	Init func(config []byte) error
	// Close is called when no call runs any more. Nil does nothing.
	Close func()
	// Asks is set where tools ask the client of their call. It counts only for a group that
	// the gateway serves in its own process, whose calls have a way to ask.
	Asks bool
}

// New returns a plugin without tools. The name is that of the program, or the key of a
// shipped group; the version may be empty.
func New(name, version string) *Plugin { return &Plugin{name: name, version: version} }

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return p.name }

// Version returns the version of the plugin.
func (p *Plugin) Version() string { return p.version }

// Add adds tools with schemas of their own. A mistake in one is an error of
// [Plugin.Tools] and of Open. The function [Add] derives the schemas from types.
func (p *Plugin) Add(tools ...Tool) {
	for _, t := range tools {
		switch {
		case p.err != nil:
			return
		case !ValidName(t.Name):
			p.err = fmt.Errorf("the name %q of a tool is not 1 to 45 of A-Z, a-z, 0-9, _ and -", t.Name)
		case find(p.tools, t.Name) != nil:
			p.err = fmt.Errorf("two tools have the name %s", t.Name)
		default:
			p.tools = append(p.tools, t)
		}
	}
}

// Tools returns what was added, or the first mistake in it.
func (p *Plugin) Tools() ([]Tool, error) { return p.tools, p.err }

// Open initialises the plugin with a configuration, a JSON object, and returns its
// tools. It is called by what serves a plugin, and not concurrently. A second Open
// begins with the tools that were there before the first.
func (p *Plugin) Open(config []byte) ([]Tool, error) {
	if p.err != nil {
		return nil, p.err
	}
	if !p.opened {
		p.opened, p.fixed = true, len(p.tools)
	}
	p.tools = p.tools[:p.fixed]
	if p.Init != nil {
		if err := p.Init(config); err != nil {
			return nil, err
		}
	}
	return p.Tools()
}

// ValidName tells whether a tool may have a name: 1 to 45 of A-Z, a-z, 0-9, _ and -.
func ValidName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 45
}

func find(tools []Tool, name string) *Tool {
	for i := range tools {
		if tools[i].Name == name {
			return &tools[i]
		}
	}
	return nil
}

// ErrUnknownTool is the error of a call of a tool that the plugin does not have.
var ErrUnknownTool = errors.New("there is no such tool")

// Server answers what a host asks of a plugin, over whatever it asks. All methods may
// be called concurrently.
type Server struct {
	plugin *Plugin

	mu     sync.Mutex
	opened bool
	tools  []Tool
	once   sync.Once // closes
}

// NewServer returns a server for one host.
func NewServer(p *Plugin) *Server { return &Server{plugin: p} }

// Init opens the plugin, once.
func (s *Server) Init(config []byte) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return errors.New("it is initialised once")
	}
	s.opened = true
	s.tools, err = s.plugin.Open(config)
	return err
}

// Tools returns the tools, nil before Init. They are not changed.
func (s *Server) Tools() []Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// Call runs a tool. A [Problem] is a result that says so. The error is
// [ErrUnknownTool], the context's once that has ended, or the tool's own. A panic of
// the tool is the caller's to recover.
func (s *Server) Call(ctx context.Context, name string, call *Call) (Result, error) {
	t := find(s.Tools(), name)
	if t == nil {
		return Result{}, ErrUnknownTool
	}
	got, err := t.Run(ctx, call)
	if problem, told := errors.AsType[Problem](err); told {
		return Result{Text: string(problem), IsError: true}, nil
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return got, err
}

// Close closes the plugin, once.
func (s *Server) Close() {
	s.once.Do(func() {
		if s.plugin.Close != nil {
			s.plugin.Close()
		}
	})
}
