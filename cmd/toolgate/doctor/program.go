package doctor

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// launcherCodes are programs that install and start servers, with the code for when they
// are absent.
var launcherCodes = map[string]string{
	"npx": CodeNoNode, "npm": CodeNoNode, "node": CodeNoNode,
	"uvx": CodeNoUV, "uv": CodeNoUV,
	"docker": CodeNoDocker, "podman": CodeNoDocker,
}

// Command checks the program of a server. path is where it was found, and err why it was
// not.
func Command(subject, command, path string, err error) []Finding {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(command)), ".exe")
	switch {
	case err == nil:
		return Program(subject, path)
	case errors.Is(err, fs.ErrPermission):
		return []Finding{Found(CodeNotExecutable, subject, err.Error(), "")}
	case launcherCodes[name] != "":
		return []Finding{Found(launcherCodes[name], subject, err.Error(), "")}
	}
	return []Finding{Found(CodeNoCommand, subject, err.Error(), "")}
}

// maxScriptLine bounds the first line of a script, as operating systems do.
const maxScriptLine = 256

// Program checks whether this machine can run a program: whether it is a binary for this
// system and processor, or a script whose interpreter exists.
func Program(subject, path string) []Finding {
	f, err := os.Open(path)
	if err != nil {
		return nil // it may be executable without being readable
	}
	defer f.Close()
	head := make([]byte, maxScriptLine)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil
	}
	head = head[:n]
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok && runtime.GOOS != "windows" {
		return interpreter(subject, path, line)
	}
	system, machines := binary(f, head)
	if system == "" || system == runtime.GOOS && slices.Contains(machines, runtime.GOARCH) ||
		system == "elf" && runtime.GOOS != "darwin" && runtime.GOOS != "windows" && slices.Contains(machines, runtime.GOARCH) {
		return nil
	}
	if system == "elf" {
		system = "Linux or another Unix"
	}
	return []Finding{Found(CodeArchitecture, subject,
		fmt.Sprintf("%s is a program for %s on %s; this is %s on %s", path, system, strings.Join(machines, " and "), runtime.GOOS, runtime.GOARCH), "")}
}

// interpreter checks the interpreter of a script by its first line, without "#!".
func interpreter(subject, path string, line []byte) []Finding {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return nil
	}
	if _, err := os.Stat(words[0]); !errors.Is(err, fs.ErrNotExist) {
		return nil // env looks its argument up in the PATH of the server, and reports a failure itself
	}
	hint := ""
	if bytes.HasSuffix(line, []byte("\r")) {
		hint = "The line has a Windows line ending; save the script with Unix line endings."
	}
	return []Finding{Found(CodeInterpreter, subject, fmt.Sprintf("%s needs %s, which does not exist", path, words[0]), hint)}
}

// binary tells for which system a program was built, and for which processors by their
// names in Go. "elf" is any Unix except macOS; empty is unknown.
func binary(f *os.File, head []byte) (system string, machines []string) {
	switch {
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		b, err := elf.NewFile(f)
		if err != nil {
			return "elf", []string{"an unknown processor"}
		}
		return "elf", []string{known(elfMachines, b.Machine, b.Machine.String())}
	case bytes.HasPrefix(head, []byte("MZ")):
		b, err := pe.NewFile(f)
		if err != nil {
			return "windows", []string{"an unknown processor"}
		}
		return "windows", []string{known(peMachines, b.Machine, fmt.Sprintf("machine %#x", b.Machine))}
	case len(head) >= 4 && slices.Contains([]string{"\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe"}, string(head[:4])):
		b, err := macho.NewFile(f)
		if err != nil {
			return "darwin", []string{"an unknown processor"}
		}
		return "darwin", []string{known(machoMachines, b.Cpu, b.Cpu.String())}
	case bytes.HasPrefix(head, []byte("\xca\xfe\xba\xbe")):
		b, err := macho.NewFatFile(f)
		if err != nil {
			return "", nil // Java classes begin like this, too
		}
		for i := range b.Arches {
			machines = append(machines, known(machoMachines, b.Arches[i].Cpu, b.Arches[i].Cpu.String()))
		}
		return "darwin", machines
	}
	return "", nil
}

func known[K comparable](names map[K]string, machine K, otherwise string) string {
	if name := names[machine]; name != "" {
		return name
	}
	return otherwise
}

var (
	elfMachines = map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm", elf.EM_RISCV: "riscv64",
		elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_LOONGARCH: "loong64",
	}
	peMachines = map[uint16]string{
		pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64", pe.IMAGE_FILE_MACHINE_I386: "386",
	}
	machoMachines = map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}
)
