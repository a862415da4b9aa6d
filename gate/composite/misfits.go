package composite

import (
	"slices"
	"strings"
)

// Misfit is a call in a tool that the tool which it calls cannot take, whatever the
// arguments are.
type Misfit struct {
	Text string // for people: the step, and what is wrong
	Ends bool   // the tool ends with it
}

// misfits looks at what tools call. Where several servers offer a name, the call has to fit
// one of them.
func (p *Phase) misfits(parts map[string][]Part) map[Tool][]Misfit {
	if p.o.Fits == nil {
		return nil
	}
	out := make(map[Tool][]Misfit)
	for of, names := range p.o.Of {
		for _, name := range names {
			var found []Misfit
			for i, part := range parts[name] {
				wrong := p.o.Fits(of, name, part.Definition)
				if len(wrong) == 0 {
					found = nil
					break
				}
				if i == 0 {
					found = wrong
				}
			}
			out[of] = append(out[of], found...)
		}
	}
	return out
}

// Stops returns why a tool cannot come to its end: a call of it, or of a tool that it calls,
// which fits no tool as it is listed. Empty for nothing.
func (p *Phase) Stops(of Tool) string {
	if p == nil {
		return ""
	}
	known := p.known.Load()
	within := []Tool{of}
	for _, name := range p.o.Of[of] {
		for _, part := range known.parts[name] {
			within = append(within, Tool{part.Server, part.Original})
		}
	}
	var texts []string
	for _, tool := range within {
		for _, m := range known.misfits[tool] {
			if m.Ends {
				texts = append(texts, m.Text)
			}
		}
	}
	return strings.Join(texts, "; ")
}

// Misfits returns all misfits, sorted.
func (p *Phase) Misfits() []string {
	if p == nil {
		return nil
	}
	var all []string
	for _, found := range p.known.Load().misfits {
		for _, m := range found {
			all = append(all, m.Text)
		}
	}
	slices.Sort(all)
	return all
}
