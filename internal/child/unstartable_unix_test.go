//go:build unix

package child

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnstartable starts what the system refuses to start, and reads what is said of it.
func TestUnstartable(t *testing.T) {
	foreign := elf.EM_AARCH64
	if madeFor(header(elf.EM_AARCH64)) == "" {
		t.Fatal("a program is not recognised")
	}
	tests := []struct{ name, text, want string }{
		{"CRLF", "#!/bin/sh\r\necho\r\n", `has the line ends of Windows, so the system looks for "/bin/sh\r"; convert it, such as with ` + "`sed -i 's/\\r$//' "},
		{"no interpreter", "#!/no/such/program -x\n", "names /no/such/program, which is not there; install it, or correct the line"},
		{"empty", "", "is empty; install the program again, or correct the path"},
		{"text", "echo hello\n", "is neither a program nor a script that names its interpreter; if it is a script, begin it with a line such as #!/bin/sh"},
		{"another processor", string(header(foreign)), "is made for the processor aarch64, and this machine is "},
		{"macOS", "\xcf\xfa\xed\xfe" + strings.Repeat("\x00", 100), "is made for macOS, and this machine is "},
		{"Windows", "MZ" + strings.Repeat("\x00", 100), "is made for Windows, and this machine is "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server")
			if err := os.WriteFile(path, []byte(tt.text), 0o700); err != nil {
				t.Fatal(err)
			}
			p, err := Start(t.Context(), Spec{Command: path})
			if err == nil {
				_ = p.Stop(t.Context(), 0) // it is not looked at any more
				t.Skip("this system starts it")
			}
			if !strings.Contains(err.Error(), path+" "+tt.want) && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\ndoes not say: %s", err, tt.want)
			}
		})
	}
}

// header is the beginning of a program for a processor.
func header(m elf.Machine) []byte {
	head := make([]byte, 400)
	copy(head, elf.ELFMAG)
	head[elf.EI_CLASS], head[elf.EI_DATA], head[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	head[16], head[18] = byte(elf.ET_EXEC), byte(m)
	return head
}
