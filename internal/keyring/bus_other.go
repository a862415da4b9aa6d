//go:build !linux

package keyring

// connection is empty where the key ring is reached without a connection.
type connection struct{}

func (*connection) open() error { return nil }
func (*connection) close()      {}

// absent tells whether an error means that there is no key ring. The library says so itself
// here.
func absent(error) bool { return false }
