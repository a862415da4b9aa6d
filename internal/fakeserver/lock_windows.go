package fakeserver

// lock is of tests that do not run here.
func lock(string) bool { return true }
