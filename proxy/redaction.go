package proxy

import (
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// redaction takes secrets out of what a server says, and counts them.
type redaction struct {
	g        *Gateway
	messages *redact.Messages
	server   string
	entry    *audit.Entry // that counts; nil where no call is closed with it
}

// redaction is that of a route.
func (g *Gateway) redaction(r *Route, entry *audit.Entry) redaction {
	return redaction{g, &r.results().Redact, r.Server, entry}
}

// redaction is that of what the server says where no tool is known.
func (s *served) redaction(g *Gateway) redaction {
	return redaction{g, &s.mount.Results.Redact, s.backend.Name(), nil}
}

func (d redaction) count(n int) {
	if n == 0 {
		return
	}
	if d.entry != nil {
		d.entry.Redacted += int64(n)
	}
	d.g.opts.Metrics.redacted(d.server, n)
}

// result is [redact.Messages.Result]. A result that was not looked through is
// refused.
func (d redaction) result(method string, result []byte) ([]byte, error) {
	clean, n, err := d.messages.Result(method, result)
	if err != nil {
		return nil, refusal.ResultUnsearched(err)
	}
	d.count(n)
	return clean, nil
}

func (d redaction) fault(fault *mcp.Error) *mcp.Error {
	clean, n := d.messages.Fault(fault)
	d.count(n)
	return clean
}

func (d redaction) members(object []byte, names ...string) []byte {
	clean, n := d.messages.Members(object, names...)
	d.count(n)
	return clean
}

func (d redaction) state(state []byte) []byte {
	clean, n := d.messages.Task(state)
	d.count(n)
	return clean
}

func (d redaction) question(method string, params []byte) []byte {
	clean, n := d.messages.Question(method, params)
	d.count(n)
	return clean
}

func (d redaction) questions(result []byte) []byte {
	clean, n := d.messages.Questions(result)
	d.count(n)
	return clean
}
