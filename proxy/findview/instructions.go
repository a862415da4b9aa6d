package findview

import "strings"

// MaxInstructions is how many bytes of instructions every known client reads.
const MaxInstructions = 2000

// Server is a server as a model is told of it.
type Server struct {
	Name         string
	Instructions string // its own; may be empty
}

// Instructions returns how to use the find view, and what the servers are for. They have
// at most [MaxInstructions] bytes.
func Instructions(servers []Server) string {
	const use = "Tools are found before they are called: ask " + FindTools + " what you want to do, in one sentence or in steps. " +
		"Each tool found says in \"call\" which tool calls it. Search before you say that something cannot be done."
	if text := summary(servers, MaxInstructions-len(use)-2); text != "" {
		return use + "\n\n" + text
	}
	return use
}

// Servers returns what the servers are for, in at most [MaxInstructions] bytes.
func Servers(servers []Server) string { return summary(servers, MaxInstructions) }

// summary names each server with the first sentence of its instructions. Where there is
// no room for all sentences, the last servers have none; where there is none for all
// names, the last are counted.
func summary(servers []Server, most int) string {
	if len(servers) == 0 {
		return ""
	}
	const begin = "The servers are:"
	const more = "\n- and more"
	left := most - len(begin) - len(more)
	n := 0
	for n < len(servers) && left >= len("\n- ")+len(servers[n].Name) {
		left -= len("\n- ") + len(servers[n].Name)
		n++
	}
	var b strings.Builder
	b.WriteString(begin)
	for _, s := range servers[:n] {
		b.WriteString("\n- " + s.Name)
		if text := Summary(s.Instructions); text != "" && len(": ")+len(text) <= left {
			b.WriteString(": " + text)
			left -= len(": ") + len(text)
		}
	}
	if n < len(servers) {
		b.WriteString(more)
	}
	return b.String()
}
