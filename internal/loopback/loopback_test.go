package loopback_test

import (
	"testing"

	"github.com/toolgate/toolgate/internal/loopback"
)

// Names and addresses of this machine, in the forms that a setting, a URL, a Host header and
// a connection have.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text          string
		host, address bool   // as what it is this machine
		name          string // of it as a Host header
	}{
		{"localhost", true, false, "localhost"},
		{"LOCALHOST", true, false, "LOCALHOST"},
		{"127.0.0.1", true, false, "127.0.0.1"},
		{"127.8.9.10", true, false, "127.8.9.10"},
		{"::1", true, false, "::1"},
		{"::ffff:127.0.0.1", true, false, "::ffff:127.0.0.1"},
		{"[::1]", false, false, "::1"},
		{"localhost:7777", false, true, "localhost"},
		{"127.0.0.1:7777", false, true, "127.0.0.1"},
		{"127.0.0.1:", false, true, "127.0.0.1"},
		{"[::1]:7777", false, true, "::1"},
		{"[::ffff:127.0.0.1]:7777", false, true, "::ffff:127.0.0.1"},
		{"", false, false, ""},
		{":7777", false, false, ""},
		{"0.0.0.0:7777", false, false, "0.0.0.0"},
		{"[::]:7777", false, false, "::"},
		{"0.0.0.0", false, false, "0.0.0.0"},
		{"127.1", false, false, "127.1"},
		{"2130706433", false, false, "2130706433"},
		{"0x7f000001", false, false, "0x7f000001"},
		{"127.0.0.1.evil.example", false, false, "127.0.0.1.evil.example"},
		{"localhost.evil.example:7777", false, false, "localhost.evil.example"},
		{"x.localhost", false, false, "x.localhost"},
		{"localhost.", false, false, "localhost."},
		{"localhost@evil.example", false, false, "localhost@evil.example"},
		{" localhost", false, false, " localhost"},
		{"::1%lo", false, false, "::1%lo"},
		{"10.0.0.1:7777", false, false, "10.0.0.1"},
		{"169.254.169.254", false, false, "169.254.169.254"},
		{"192.0.2.1", false, false, "192.0.2.1"},
	} {
		if got := loopback.Host(tt.text); got != tt.host {
			t.Errorf("%q as a host: %v", tt.text, got)
		}
		if got := loopback.Address(tt.text); got != tt.address {
			t.Errorf("%q as an address: %v", tt.text, got)
		}
		if got := loopback.Name(tt.text); got != tt.name {
			t.Errorf("the name of %q: %q", tt.text, got)
		}
	}
}
