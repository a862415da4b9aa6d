package failure_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/failure"
)

// TestPlain makes the system say something, where it can be made to.
func TestPlain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	get := func(url string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	listen := func(address string) error {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err == nil {
			l.Close()
		}
		return err
	}
	stat := func(name string) error { _, err := os.Stat(name); return err }
	open := func(err error) error { return &fs.PathError{Op: "open", Path: "/x", Err: err} }
	absent := filepath.Join(dir, "absent")
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nothing", nil, "<nil>"},
		{"something else", errors.New("something else"), "something else"},
		{"absent", stat(absent), absent + " does not exist; name one that does"},
		{"absent with a hint", fmt.Errorf("read it: %w; do this", stat(absent)), "read it: " + absent + " does not exist; do this"},
		{"below a file", os.MkdirAll(filepath.Join(file, "a"), 0o700), "a file is where a folder should be: " + file + "; name a folder"},
		{"permission", fmt.Errorf("write toolgate.yaml: %w", open(fs.ErrPermission)), "write toolgate.yaml: access to /x is not permitted; check its owner and permissions"},
		{"read-only", open(syscall.EROFS), "/x is on a read-only file system; use a folder that you may write to"},
		{"full", open(syscall.ENOSPC), "there is no space left for /x; free some on that disk"},
		{"link", &os.LinkError{Op: "rename", Old: "/a", New: "/b", Err: fs.ErrPermission}, "access to /b is not permitted; check its owner and permissions"},
		{"another fault of a file", open(errors.New("odd")), "open /x: odd"},
		{"nobody listens", get("http://127.0.0.1:1/"), "nothing listens at 127.0.0.1:1; start the program that should, or correct the address"},
		{"no host", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}}, "the host no-such-host.invalid is not known; check the name of the host"},
		{"own certificate", get(server.URL), "the certificate is of an authority that this machine does not trust; name the authority's certificates with SSL_CERT_FILE"},
		{"expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "the certificate has expired, or is not valid yet; have it renewed, and check the clock of this machine"},
		{"other name", &tls.CertificateVerificationError{Err: x509.HostnameError{Host: "a", Certificate: &x509.Certificate{}}}, "the certificate is not for a; use a name that the certificate has"},
		{"no TLS", get(strings.Replace(plain.URL, "http:", "https:", 1)), "the other side does not speak TLS; write http:// instead of https:// if that is what it serves"},
		{"in use", listen(plain.Listener.Addr().String()), plain.Listener.Addr().String() + " is in use; choose another address"},
		{"not ours", listen("198.51.100.7:1"), "198.51.100.7:1 is not an address of this machine; use one that is, such as 127.0.0.1, or 0.0.0.0 for all"},
		{"late", &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, Err: context.DeadlineExceeded}, "192.0.2.1:80 does not answer; check that it runs, and that no firewall is in between"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failure.Plain(c.err)
			if text := fmt.Sprint(got); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
			if !errors.Is(got, c.err) {
				t.Error("the original error is lost")
			}
		})
	}
}
