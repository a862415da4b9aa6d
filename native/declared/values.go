package declared

import (
	"maps"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// values returns the arguments of a call over the defaults of their schema.
func (c *compiled) values(args []byte) placeholder.Values {
	out := make(placeholder.Values, len(c.defaults))
	maps.Copy(out, c.defaults)
	for m := range mcp.Members(args) {
		if name, err := mcp.Unquote(m.Key(args)); err == nil {
			out[name] = m.Value.Of(args)
		}
	}
	return out
}
