package daemon

import (
	"slices"
	"sync"
)

// misfits are the steps of tools that cannot do their calls, of which the log has been told. A
// reload leaves them, so that it tells nothing twice. The zero value has none. It is safe for
// concurrent use.
type misfits struct {
	mu   sync.Mutex
	told []string
}

// news returns those that there were not before, and keeps those that there are now.
func (m *misfits) news(all []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = all
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(told, text) })
}
