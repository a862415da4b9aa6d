package governance

import (
	"errors"
	"path"
	"strings"
)

const (
	// maxSegments is how many parts a glob may have.
	maxSegments = 64
	// maxGlob is the longest glob, in bytes.
	maxGlob = 4096
)

// pathGlob is a glob for paths. * and ? match within one part of a path, [a-z] matches
// one character, ** any number of parts, including none. A back slash is a separator.
// A leading ~, $HOME or ${HOME} is the home directory.
type pathGlob struct {
	text     string
	absolute bool
	remote   bool
	fold     bool
	segments []string // as written
	loose    []string // in the form of loose readings
}

// newPathGlob parses a glob. A relative glob that forbids matches in any folder.
func newPathGlob(text, home string, fold, forbid bool) (*pathGlob, error) {
	if text == "" || len(text) > maxGlob {
		return nil, errors.New("a glob has 1 to 4096 bytes")
	}
	g := &pathGlob{text: text, fold: fold}
	switch {
	case strings.Contains(text, "://"):
		name, rest, _ := strings.Cut(text, "://")
		if name = strings.ToLower(name); !remotes[name] {
			return nil, errors.New("globs of URLs are for http, https, ws and wss; write a path")
		}
		g.absolute, g.remote = true, true
		host, rest, _ := strings.Cut(rest, "/")
		g.segments = append([]string{name + ":", strings.ToLower(host)}, strings.Split(rest, "/")...)
	default:
		if err := legible(text); err != nil {
			return nil, err
		}
		expanded, err := expand(text, home)
		if err != nil {
			return nil, err
		}
		body := strings.ReplaceAll(expanded, `\`, "/")
		g.absolute = strings.HasPrefix(body, "/") || drive.MatchString(body)
		g.segments = strings.Split(body, "/")
		if drive.MatchString(body) {
			g.segments[0] = strings.ToUpper(g.segments[0])
		}
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	if forbid && !g.absolute && g.segments[0] != "**" {
		g.segments = append([]string{"**"}, g.segments...)
	}
	for i, segment := range g.segments {
		switch {
		case g.remote || i == 0 && isDrive(segment):
		default:
			segment = trim(narrow(segment))
		}
		if fold {
			segment, g.segments[i] = foldCase(segment), foldCase(g.segments[i])
		}
		if segment != "" {
			g.loose = append(g.loose, segment)
		}
	}
	return g, nil
}

func (g *pathGlob) check() error {
	var kept []string
	for _, segment := range g.segments {
		switch {
		case segment == "" || segment == ".":
			continue
		case segment == "..":
			return errors.New("a glob has no .. in it")
		case segment != "**" && strings.Contains(segment, "**"):
			return errors.New("** stands alone between slashes")
		}
		if _, err := path.Match(segment, ""); err != nil {
			return errors.New("a bracket is not closed")
		}
		kept = append(kept, segment)
	}
	switch {
	case len(kept) == 0 && !g.absolute:
		return errors.New("a glob names something")
	case len(kept) > maxSegments:
		return errors.New("a glob has at most 64 parts")
	}
	g.segments = kept
	return nil
}

// pattern returns the glob in the form for a reading.
func (g *pathGlob) pattern(r reading) []string {
	if r.loose {
		return g.loose
	}
	return g.segments
}

// segmentsOf returns the segments of a reading in the form that the glob compares.
func (g *pathGlob) segmentsOf(r reading) []string {
	if g.fold {
		return r.folded
	}
	return r.segments
}

// allows tells whether the glob matches a reading.
func (g *pathGlob) allows(r reading) bool {
	if g.absolute != r.absolute || g.remote != r.remote || r.climbs() {
		return false
	}
	return match(g.pattern(r), g.segmentsOf(r), false)
}

// forbids tells whether the glob matches a reading or a folder above it. A relative
// reading is forbidden if it matches from any starting folder.
func (g *pathGlob) forbids(r reading) bool {
	if g.remote != r.remote {
		return false
	}
	pattern, segments := g.pattern(r), g.segmentsOf(r)
	if r.absolute {
		return match(pattern, segments, true)
	}
	for len(segments) > 0 && segments[0] == ".." {
		segments = segments[1:]
	}
	for i := range pattern {
		if names(pattern[i:]) && match(pattern[i:], segments, true) {
			return true
		}
	}
	return false
}

// names tells whether a part of a pattern contains any literal text.
func names(pattern []string) bool {
	for _, segment := range pattern {
		if strings.Trim(segment, "*?") != "" {
			return true
		}
	}
	return false
}

// match tells whether a pattern matches all segments. With below, it may also match
// only the first segments, as a folder that contains the rest. The work is at most the
// product of the two lengths.
func match(pattern, segments []string, below bool) bool {
	at := make([]bool, len(segments)+1) // whether the pattern so far matches the first i
	at[0] = true
	for _, part := range pattern {
		next := make([]bool, len(segments)+1)
		for i := range at {
			switch {
			case part == "**":
				next[i] = at[i] || i > 0 && next[i-1]
			case i > 0 && at[i-1]:
				next[i] = matchSegment(part, segments[i-1])
			}
		}
		at = next
	}
	if !below {
		return at[len(segments)]
	}
	for _, ok := range at {
		if ok {
			return true
		}
	}
	return false
}

func matchSegment(pattern, segment string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == segment
	}
	ok, err := path.Match(pattern, segment)
	return ok && err == nil
}
