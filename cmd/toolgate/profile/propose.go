package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/upstream"
)

const (
	// mostRounds bounds how often more is granted.
	mostRounds = 8
	// mostTrials bounds the starts of a server.
	mostTrials = 40
)

// Proposal is a sandbox under which a server has listed its tools.
type Proposal struct {
	Sandbox upstream.Sandbox
	Tools   int // that it listed
	Trials  int // how often it was started
	// Withheld is what the server asked for and the proposal does not grant, because it
	// holds secrets or is too much.
	Withheld []string
}

// Search is what is needed to look for a sandbox.
type Search struct {
	Server *config.Server
	Config *config.Config
	Off    *build.KeptOff
	// Log is told of each trial; nil is not.
	Log func(string)

	trials int
}

// Propose starts the server until it lists its tools confined. The error says what it
// misses, or why a sandbox cannot be tried here.
func (s *Search) Propose(ctx context.Context) (*Proposal, error) {
	if s.Server.Transport != upstream.Stdio {
		return nil, fmt.Errorf("%s is not started by toolgate: a sandbox is for stdio servers", s.Server.Key)
	}
	if err := sandbox.Refusal(sandbox.Policy{Unlimited: true}); err != nil {
		return nil, err
	}
	f := &finder{server: s.Server, keepsOff: s.keepsOff, home: home()}
	g := grants{}
	f.entry(&g)
	last, err := s.grow(ctx, f, &g)
	if err != nil {
		return nil, err
	}
	if !last.ready {
		return nil, fmt.Errorf("the server does not start with %s: %s%s", g, last.reason, withheld(f.withheld))
	}
	s.shrink(ctx, &g)
	return &Proposal{Sandbox: g.sandbox(), Tools: last.tools, Trials: s.trials, Withheld: f.withheld}, nil
}

func withheld(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return fmt.Sprintf("; it asked for %q, which is not proposed", paths)
}

// keepsOff tells whether a sandbox may grant a path.
func (s *Search) keepsOff(path string) error {
	server := *s.Server
	server.Sandbox = &upstream.Sandbox{Read: []string{path}}
	return build.CheckSandboxes([]config.Server{server}, s.Config, s.Off)
}

// grow grants more until the server is ready or nothing more is known that it may need.
// The network comes last, and after it that a server that is downloaded runs what it has
// downloaded.
func (s *Search) grow(ctx context.Context, f *finder, g *grants) (trial, error) {
	var last trial
	for range mostRounds {
		last = s.try(ctx, g, g.String())
		if err := ctx.Err(); err != nil || last.ready {
			return last, err
		}
		if f.said(g, append(last.said, last.reason)) {
			continue
		}
		switch {
		case !g.network:
			g.network = true
		case !g.runOwn && s.Server.Fetched():
			g.runOwn = true
		default:
			return last, nil
		}
	}
	return last, nil
}

// shrink takes away what the server does without.
func (s *Search) shrink(ctx context.Context, g *grants) {
	if g.runOwn { // perhaps the network was not what it missed
		less := g.clone()
		less.network = false
		if s.try(ctx, &less, "without the network").ready {
			*g = less
		}
	}
	for _, list := range []*[]string{&g.read, &g.run} {
		for _, path := range slices.Clone(*list) {
			if s.trials >= mostTrials || ctx.Err() != nil {
				return
			}
			less := g.clone()
			less.drop(path)
			if s.try(ctx, &less, "without "+path).ready {
				*g = less
				continue
			}
			if list == &g.run { // perhaps it only reads it
				less.read = append(less.read, path)
				if s.try(ctx, &less, "reading "+path).ready {
					*g = less
				}
			}
		}
	}
}

// trial is one start of a server.
type trial struct {
	ready  bool
	tools  int
	reason string
	said   []string // the last lines of its stderr
}

// errStopped ends a trial that is over.
var errStopped = errors.New("the trial is over")
