package descent

// Sweep is [sweep].
var Sweep = sweep

// HoldLooks keeps everybody from looking who holds a socket until what it returns is
// called.
func HoldLooks() (letGo func()) {
	walking.Lock()
	return walking.Unlock
}
