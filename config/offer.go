package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// reservedNamespace is that of toolgate's own tools.
const reservedNamespace = "toolgate"

// checkOffers reports offers whose arguments lead nowhere.
func checkOffers(p *tree.Problems, servers []Server, settings *tree.Node) {
	fields := settings.ByKey()
	for i := range servers {
		s := &servers[i]
		if s.Offer == nil {
			continue
		}
		node := fields[s.Key].Value.Get("offer")
		path := "servers." + s.Key + ".offer.arguments"
		for _, name := range slices.Sorted(maps.Keys(s.Offer.Arguments)) {
			at := node.Get("arguments").Get(name)
			values := s.Offer.Arguments[name]
			switch {
			case len(values) == 0 || slices.Contains(values, ""):
				p.At(at, path+"."+name, "list the values it may have", "an argument needs values, and none may be empty")
			case s.Refused == nil && !s.Disabled && !s.names(name):
				p.At(at, path+"."+name, "write {"+name+"} where its value belongs", "neither args, url nor env of the server has {%s}", name)
			}
		}
	}
}

// names tells whether the value of an argument of the offer has a place.
func (s *Server) names(argument string) bool {
	place := "{" + argument + "}"
	if strings.Contains(s.URL, place) || slices.ContainsFunc(s.Args, func(arg string) bool { return strings.Contains(arg, place) }) {
		return true
	}
	for _, value := range s.Env {
		if strings.Contains(value.Reveal(), place) {
			return true
		}
	}
	return false
}

// Enabled returns the server of an offer as it is started for one who added it:
// under a key and a namespace of its own, with values for its arguments. A value
// that the offer does not have, or one too few, gives false.
func (s Server) Enabled(key, namespace string, arguments map[string]string) (Server, bool) {
	if s.Offer == nil || len(arguments) != len(s.Offer.Arguments) {
		return Server{}, false
	}
	pairs := make([]string, 0, 2*len(arguments))
	for name, value := range arguments {
		if !slices.Contains(s.Offer.Arguments[name], value) {
			return Server{}, false
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	fill := strings.NewReplacer(pairs...).Replace
	s.Key, s.Namespace, s.Offer = key, namespace, nil
	s.Args = slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = fill(s.Args[i])
	}
	s.URL, s.Env = fill(s.URL), maps.Clone(s.Env)
	for name, value := range s.Env {
		s.Env[name] = secret.Text(fill(value.Reveal()))
	}
	return s, true
}
