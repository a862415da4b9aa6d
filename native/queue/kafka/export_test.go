package kafka

// Held returns how many jobs a gateway knows of.
func (e *Engine) Held() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.jobs)
}
