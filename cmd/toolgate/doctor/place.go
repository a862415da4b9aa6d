package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Listen checks whether the gateway could listen on an address, and releases it at once.
func Listen(ctx context.Context, setting, address string) []Finding {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		l.Close()
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return []Finding{Found(CodePort, setting, address+" is in use by "+whoHolds(address), "")}
	}
	return []Finding{Found(CodeAddress, setting, err.Error(), "")}
}

// whoHolds names the process that listens on an address.
func whoHolds(address string) string {
	pid, program := Holder(address)
	if pid == 0 {
		return "another process"
	}
	return fmt.Sprintf("%s, pid %d", program, pid)
}

// Folder checks whether a folder, or the nearest existing one above it, is writable. It
// creates a file in it and removes the file again.
func Folder(code, subject, dir string) []Finding {
	for {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return []Finding{Found(code, subject, err.Error(), "")}
		}
		if !info.IsDir() {
			return []Finding{Found(code, subject, dir+" is not a folder", "")}
		}
		break
	}
	f, err := os.CreateTemp(dir, ".toolgate-doctor-*")
	if err != nil {
		return []Finding{Found(code, subject, err.Error(), "")}
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return []Finding{Found(code, subject, err.Error(), "")}
	}
	return nil
}

// Appended checks whether a file can be appended to, or created if it is absent.
func Appended(code, subject, path string) []Finding {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Folder(code, subject, filepath.Dir(path))
	case err != nil:
		return []Finding{Found(code, subject, err.Error(), "")}
	case info.IsDir():
		return []Finding{Found(code, subject, path+" is a folder", "")}
	case !info.Mode().IsRegular():
		return nil // a pipe or device: opening it may have effects
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return []Finding{Found(code, subject, err.Error(), "")}
	}
	f.Close()
	return nil
}

// Plugin compares a plugin with the checksum of the configuration.
func Plugin(name, path, sum string) []Finding {
	subject := "native.plugins." + name
	f, err := os.Open(path)
	if err != nil {
		return []Finding{Found(CodePlugin, subject, err.Error(), "")}
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return []Finding{Found(CodePlugin, subject, err.Error(), "")}
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(got, sum) {
		return []Finding{Found(CodePluginChecksum, subject, fmt.Sprintf("%s has the SHA-256 %s, and the configuration says %s", path, got, strings.ToLower(sum)), "")}
	}
	return Program(subject, path)
}
