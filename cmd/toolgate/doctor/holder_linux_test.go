package doctor_test

import (
	"net"
	"os"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/internal/testport"
)

func TestHolder(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		defer l.Close()
		if pid, program := doctor.Holder(l.Addr().String()); pid != os.Getpid() || program == "" {
			t.Errorf("%s is held by %d %q, want %d", l.Addr(), pid, program, os.Getpid())
		}
	}
	for _, address := range []string{testport.Address(t), "", "nonsense", "localhost:1", "127.0.0.1:99999"} {
		if pid, program := doctor.Holder(address); pid != 0 || program != "" {
			t.Errorf("%q is held by %d %q", address, pid, program)
		}
	}
}
