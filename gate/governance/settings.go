package governance

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
)

// Settings are the rules about calls and their arguments that an operator writes.
type Settings struct {
	// Tools are the rules, by the exposed name of a tool or a glob. Absent: none.
	Tools map[string]Tool `config:"tools"`
}

// Tool is a rule about the calls of some tools. All rules that match a tool have to
// let a call pass, and the highest of their risks is the tool's.
type Tool struct {
	// Risk of calling it. Absent: not known, which LOCKDOWN does not let pass.
	Risk Risk `config:"risk" enum:"low|medium|high"`
	// Class is what it does; the hints of its server can only make it stricter. Absent: destructive, unless the
	// annotations of the tool under servers say otherwise.
	Class string `config:"class" enum:"read_only|write|destructive"`
	// Category names what kind of tool it is. Absent: none.
	Category string `config:"category"`
	// HighCost tools are not called in mode DEGRADED. Absent: it is not one.
	HighCost bool `config:"high_cost"`
	// PathsIn are JSON Pointers of arguments that are paths, in which a token * stands for any; [] is an error. Absent: every
	// string argument whose name or format says path, file, dir, root, source, destination or uri, and every name of a member
	// that is one itself.
	PathsIn []string `config:"paths_in"`
	// AllowedPaths are globs one of which every path has to match; relative ones are of the folder of the file, and [] allows no path. Absent: any path.
	AllowedPaths []string `config:"allowed_paths"`
	// ForbiddenPaths are globs that no path may match or be below of; ./name is of the folder of the file, a name
	// alone holds anywhere. Absent: none.
	ForbiddenPaths []string `config:"forbidden_paths"`
	// Case is how the case of paths is compared. Absent: forbidden in any case, allowed in the one that is written.
	Case Case `config:"case" enum:"exact|fold"`
	// MaxBytes bounds the arguments. Absent: limits.body.
	MaxBytes units.Size `config:"max_bytes"`
	// Commands limit arguments that are command lines. Absent: any.
	Commands []Commands `config:"commands"`
	// Patterns limit the text of arguments. Absent: any.
	Patterns []Pattern `config:"patterns"`
	// RequiresApprovalInModes are modes in which a person is asked. Absent: none.
	RequiresApprovalInModes []Mode `config:"requires_approval_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// ForbiddenInModes are modes in which it is not called. Absent: none.
	ForbiddenInModes []Mode `config:"forbidden_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
}

// Check implements [decode.Checker]: it refuses rules that leave their own arguments
// unread.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	rules := n.Get("tools").ByKey()
	for _, match := range slices.Sorted(maps.Keys(s.Tools)) {
		if own := s.Tools[match]; own.PathsIn != nil && len(own.PathsIn) == 0 {
			p.At(rules[match].Value.Get("paths_in"), tree.Join(path, "tools."+match+".paths_in"),
				"leave it out, so that paths are found by their names, or take allowed_paths and forbidden_paths away", "an empty list leaves all paths unread")
		}
	}
}

// Rules returns the rules, sorted by what they match. Relative paths are resolved
// against a folder; an empty folder leaves them. at returns where the first value
// below a path of the section is written.
func (s *Settings) Rules(folder string, at func(path string) gate.Rule) []Rule {
	var rules []Rule
	for _, match := range slices.Sorted(maps.Keys(s.Tools)) {
		r := Rule{Match: match, At: at("tools." + match), Tool: s.Tools[match]}
		r.AllowedPaths, r.ForbiddenPaths = inFolder(folder, r.AllowedPaths, false), inFolder(folder, r.ForbiddenPaths, true)
		rules = append(rules, r)
	}
	return rules
}

// inFolder resolves relative globs against a folder; nil stays nil. A forbidding glob
// that does not begin with a dot matches in any folder, and so does one that begins
// with **.
func inFolder(dir string, globs []string, forbid bool) []string {
	if globs == nil || dir == "" {
		return globs
	}
	out := make([]string, len(globs))
	for i, glob := range globs {
		slashed := strings.ReplaceAll(glob, `\`, "/")
		relative := strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || slashed == "." || slashed == ".."
		relative = relative || !forbid && !anchored(slashed)
		out[i] = glob
		if relative {
			out[i] = filepath.ToSlash(Literal(resolved(dir, &slashed)))
			if slashed != "" {
				out[i] += "/" + slashed
			}
		}
	}
	return out
}

// resolved returns the folder of a relative glob, and leaves the rest in glob.
func resolved(dir string, glob *string) string {
	for {
		switch first, rest, _ := strings.Cut(*glob, "/"); first {
		case ".":
			*glob = rest
		case "..":
			dir, *glob = filepath.Dir(dir), rest
		default:
			return dir
		}
	}
}

// anchored tells whether a glob has its own starting point: a root, the home
// directory, a host, or anywhere.
func anchored(glob string) bool {
	for _, prefix := range []string{"/", "~", "$HOME", "${HOME}", "**"} {
		if strings.HasPrefix(glob, prefix) {
			return true
		}
	}
	return strings.Contains(glob, "://") || len(glob) > 1 && glob[1] == ':'
}

// Literal writes a path as a glob that matches only it.
func Literal(path string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(path)
}
