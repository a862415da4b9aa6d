package credential

// Remembered returns of how many principals the source remembers the credential.
func (s *Source) Remembered() (n int) {
	s.own.all.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
