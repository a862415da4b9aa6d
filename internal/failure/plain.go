package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Plain returns an error whose text says in plain words what the system has said about a
// file or an address, and what to do about it. Everything else in the text stays. An
// error without such a cause is returned as it is, and so is nil.
func Plain(err error) error {
	said, plain, hint := cause(err)
	if said == "" {
		return err
	}
	before, after, found := strings.Cut(err.Error(), said)
	if !found {
		return err
	}
	if hint != "" && !strings.Contains(after, "; ") {
		after += "; " + hint
	}
	return Reworded(err, "%s", before+plain+after)
}

// Cause returns what [Plain] would say about the file or address that an error is about;
// empty if it is about none.
func Cause(err error) string {
	_, plain, _ := cause(err)
	return plain
}

// cause finds what a library has said, and returns what to say instead. All are empty if
// there is nothing to translate.
func cause(err error) (said, plain, hint string) {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return address(e)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Error(), unknownHost(e), "check the name of the host"
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		plain, hint = certificate(e)
		return e.Error(), plain, hint
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return e.Error(), "the other side does not speak TLS", "write http:// instead of https:// if that is what it serves"
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		plain, hint = path(e.Path, e.Err)
		return nonEmpty(e.Error(), plain), plain, hint
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		plain, hint = path(e.New, e.Err)
		return nonEmpty(e.Error(), plain), plain, hint
	}
	return "", "", ""
}

// nonEmpty is a text if there is another one to say for it.
func nonEmpty(text, other string) string {
	if other == "" {
		return ""
	}
	return text
}

// path says why a file cannot be used.
func path(name string, err error) (plain, hint string) {
	switch {
	case errors.Is(err, syscall.EROFS):
		return name + " is on a read-only file system", "use a folder that you may write to"
	case errors.Is(err, fs.ErrPermission):
		return "access to " + name + " is not permitted", "check its owner and permissions"
	case errors.Is(err, syscall.ENOTDIR):
		return "a file is where a folder should be: " + name, "name a folder"
	case errors.Is(err, syscall.EISDIR):
		return name + " is a folder, not a file", "name a file"
	case errors.Is(err, fs.ErrNotExist):
		return name + " does not exist", "name one that does"
	case errors.Is(err, syscall.ENOSPC):
		return "there is no space left for " + name, "free some on that disk"
	}
	return "", ""
}

// address says why an address cannot be used or reached.
func address(e *net.OpError) (said, plain, hint string) {
	where := ""
	if e.Addr != nil {
		where = e.Addr.String()
	}
	if dns, ok := errors.AsType[*net.DNSError](e); ok {
		return e.Error(), unknownHost(dns), "check the name of the host"
	}
	switch text := e.Error(); {
	case e.Op == "dial" && is(e, syscall.ECONNREFUSED, 10061):
		return text, "nothing listens at " + where, "start the program that should, or correct the address"
	case e.Op == "dial" && e.Timeout():
		return text, where + " does not answer", "check that it runs, and that no firewall is in between"
	case e.Op == "dial" && is(e, syscall.EHOSTUNREACH, syscall.ENETUNREACH, 10051, 10065):
		return text, where + " cannot be reached from this machine", "check the address and the network"
	case e.Op == "listen" && is(e, syscall.EADDRNOTAVAIL, 10049):
		return text, where + " is not an address of this machine", "use one that is, such as 127.0.0.1, or 0.0.0.0 for all"
	case e.Op == "listen" && errors.Is(e, fs.ErrPermission):
		return text, "this user may not listen on " + where, "choose a port above 1023"
	case e.Op == "listen" && is(e, syscall.EADDRINUSE, 10048):
		return text, where + " is in use", "choose another address"
	}
	return "", "", ""
}

// is reports whether an error is one of these. On Windows the errors of sockets have
// numbers above 10000, which no other system has.
func is(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}

func unknownHost(e *net.DNSError) string {
	if e.IsTimeout {
		return "looking up the host " + e.Name + " takes too long"
	}
	return fmt.Sprintf("the host %s is not known", e.Name)
}

// certificate says why a certificate is not trusted.
func certificate(err error) (plain, hint string) {
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is not for " + e.Host, "use a name that the certificate has"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "the certificate has expired, or is not valid yet", "have it renewed, and check the clock of this machine"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is of an authority that this machine does not trust", "name the authority's certificates with SSL_CERT_FILE"
	}
	return "the certificate is not valid", "have it replaced"
}
