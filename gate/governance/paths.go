package governance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate/schema"
)

// judgePaths checks the paths among the arguments against the globs of a rule.
func (r *Rules) judgePaths(own *rule, call Call, args any) Verdict {
	if own.AllowedPaths == nil && len(own.forbidden) == 0 {
		return Verdict{Outcome: Pass}
	}
	leaves, err := r.pathsIn(own, call, args)
	if err != nil {
		return own.deny("paths_in", fmt.Sprintf("the arguments that are paths cannot be found: %v", err),
			change("name them in paths_in", own.where("paths_in"), `["/*"]`))
	}
	for _, l := range leaves {
		if v := r.judgePath(own, l); v.Outcome != Pass {
			return v
		}
	}
	return Verdict{Outcome: Pass}
}

// pathsIn returns the arguments that are paths.
func (r *Rules) pathsIn(own *rule, call Call, args any) ([]leaf, error) {
	if own.PathsIn != nil {
		leaves := slices.DeleteFunc(leavesIn(own.paths, args), func(l leaf) bool { return !l.str })
		for _, p := range own.paths {
			p.at(args, func(place string, value any) { leaves = keysOf(leaves, value, place, true) })
		}
		return leaves, nil
	}
	s, err := r.schemaOf(call)
	if err != nil && own.ByName {
		s, err = r.schemas.Compile(nil)
	}
	if err != nil {
		return nil, err
	}
	texts, err := s.Texts(call.Arguments, PathName)
	if err != nil {
		return nil, err
	}
	var leaves []leaf
	for _, t := range texts {
		leaves = append(leaves, leaf{t.Pointer, t.Value, true})
	}
	return keysOf(leaves, args, "", false), nil
}

// schemaOf returns the schema of a call, or an empty schema when it has none.
func (r *Rules) schemaOf(call Call) (*schema.Schema, error) {
	if call.Schema == nil {
		return r.schemas.Compile(nil)
	}
	return call.Schema()
}

// judgePath checks one path, in all its readings, against the globs.
func (r *Rules) judgePath(own *rule, l leaf) Verdict {
	ways, err := readings(l.text, r.home)
	if err != nil {
		return argumentDeny(own.place("paths"), l.pointer, fmt.Sprintf("the path in %s %v", l.pointer, err))
	}
	for i, g := range own.forbidden {
		leads := "is"
		if !slices.ContainsFunc(ways, g.forbids) {
			if leads = "may lead"; !slices.ContainsFunc(ways, g.mayForbid) {
				continue
			}
		}
		return own.deny(
			"forbidden_paths: "+g.text,
			fmt.Sprintf("the path %q in %s %s under %s, which is forbidden", cut(l.text), l.pointer, leads, g.text),
			change(fmt.Sprintf("remove %q from the forbidden paths", g.text), own.entry("forbidden_paths", i), ""),
		)
	}
	if own.AllowedPaths == nil {
		return Verdict{Outcome: Pass}
	}
	for _, way := range ways {
		if !way.weak && way.climbsByWildcard() {
			return argumentDeny(own.place("allowed_paths"), l.pointer,
				fmt.Sprintf("the path %q in %s may lead out of its folder; name what is meant", cut(l.text), l.pointer))
		}
		if way.weak || slices.ContainsFunc(own.allowed, func(g *pathGlob) bool { return g.allows(way) }) {
			continue
		}
		return own.notAllowed(l, way)
	}
	return Verdict{Outcome: Pass}
}

// notAllowed denies a path because of one of its readings.
func (r *rule) notAllowed(l leaf, way reading) Verdict {
	at := r.place("allowed_paths: " + strings.Join(r.AllowedPaths, ", "))
	if way.climbs() {
		return argumentDeny(at, l.pointer, fmt.Sprintf("the path %q in %s leads out of an unknown folder; send an absolute path", cut(l.text), l.pointer))
	}
	hint := ""
	if !way.absolute {
		hint = "; it is relative, send an absolute path"
	}
	if len(r.AllowedPaths) == 0 {
		hint = "; no path is"
	}
	glob := way.glob()
	if glob == "" {
		return argumentDeny(at, l.pointer, fmt.Sprintf("the path %q in %s is empty", cut(l.text), l.pointer))
	}
	return Verdict{
		Reason: fmt.Sprintf("the path %q in %s is not under a path that is allowed%s", cut(l.text), l.pointer, hint),
		Rule:   at,
		Change: change(fmt.Sprintf("add %q to the allowed paths", glob), r.where("allowed_paths[+]"), glob),
	}
}

// glob returns a glob that matches only this reading; empty when there is none.
func (r reading) glob() string {
	if len(r.segments) == 0 && !r.absolute {
		return ""
	}
	segments := slices.Clone(r.segments)
	for i, segment := range segments {
		segments[i] = escapeGlob(segment)
	}
	r.segments = segments
	return r.String()
}

// escapeGlob writes text as a glob that matches it and little else.
func escapeGlob(text string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]", `\`, "?").Replace(text)
}
