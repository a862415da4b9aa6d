package proxy

import "github.com/toolgate/toolgate/internal/audit"

// Metrics is called when something countable happens. Nil fields, and a nil
// Metrics, count nothing. The functions must not block.
type Metrics struct {
	// Call is called once for each closed call, with its audit entry.
	Call func(*audit.Entry)
	// Sessions is called with the number of open legacy sessions.
	Sessions func(int)
	// Limited is called with the setting that refuses something, as in
	// "lists_per_minute", each time that it does.
	Limited func(setting string)
	// Redacted is called with the number of secrets that were taken out of one
	// message of a server.
	Redacted func(server string, n int)
}

func (m *Metrics) call(e *audit.Entry) {
	if m != nil && m.Call != nil {
		m.Call(e)
	}
}

func (m *Metrics) sessions(n int) {
	if m != nil && m.Sessions != nil {
		m.Sessions(n)
	}
}

func (m *Metrics) limited(setting string) {
	if m != nil && m.Limited != nil {
		m.Limited(setting)
	}
}

func (m *Metrics) redacted(server string, n int) {
	if m != nil && m.Redacted != nil {
		m.Redacted(server, n)
	}
}
