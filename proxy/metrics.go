package proxy

import (
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

// Metrics is called when something countable happens. Nil fields, and a nil
// Metrics, count nothing. The functions must not block.
type Metrics struct {
	// Call is called once for each closed call, with its audit entry.
	Call func(*audit.Entry)
	// Served is called once for each request that calls nothing, such as a list,
	// with the binding it came over.
	Served func(method, transport string, took time.Duration, failed bool)
	// Listed is called with the persona of the caller for each list of tools
	// that is served; further pages of one are not counted.
	Listed func(persona string)
	// Sessions is called with the number of open legacy sessions.
	Sessions func(int)
	// SessionEnded is called for each session of a client that has ended.
	SessionEnded func(transport string, lasted time.Duration)
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

func (m *Metrics) served(method, transport string, began time.Time, failed bool) {
	if m != nil && m.Served != nil {
		m.Served(method, transport, time.Since(began), failed)
	}
}

func (m *Metrics) listed(persona string) {
	if m != nil && m.Listed != nil {
		m.Listed(persona)
	}
}

func (m *Metrics) sessionEnded(transport string, began time.Time) {
	if m != nil && m.SessionEnded != nil {
		m.SessionEnded(transport, time.Since(began))
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
