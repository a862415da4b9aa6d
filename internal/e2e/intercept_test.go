//go:build e2e && unix

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// interceptor is the proxy of an organisation that looks into what is downloaded: it ends
// TLS with certificates of its own authority, which nobody trusts who is not told to. It
// also reaches hosts that exist nowhere else, so that who goes past it gets nothing.
type interceptor struct {
	url    string
	caFile string              // its authority, PEM
	hosts  map[string]*url.URL // what is behind the names that it alone knows

	ca      *x509.Certificate
	key     *ecdsa.PrivateKey
	tunnels *tunnels

	mu    sync.Mutex
	asked map[string]int // requests by host
}

// tunnels is the listener of what comes through CONNECT.
type tunnels struct {
	net.Listener // for its address
	conns        chan net.Conn
	closed       chan struct{}
	once         sync.Once
}

func (l *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *tunnels) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// startInterceptor starts a proxy that ends with t.
func startInterceptor(t *testing.T, hosts map[string]*url.URL) *interceptor {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &interceptor{
		url: "http://" + ln.Addr().String(), hosts: hosts, asked: map[string]int{},
		tunnels: &tunnels{Listener: ln, conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	p.authority(t)
	out := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: machineRoots(t), MinVersion: tls.VersionTLS12}}
	forward := &httputil.ReverseProxy{
		Transport: out, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
			if r.In.TLS != nil {
				r.Out.URL.Scheme = "https"
			}
			if to := p.hosts[r.In.Host]; to != nil {
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.User, r.Out.Host = to.Scheme, to.Host, to.User, ""
			}
			p.mu.Lock()
			p.asked[r.In.Host]++
			p.mu.Unlock()
		},
	}
	outside := &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: forward.ErrorLog, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			p.tunnel(w)
			return
		}
		forward.ServeHTTP(w, r)
	})}
	inside := &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: forward.ErrorLog, Handler: forward}
	var running sync.WaitGroup
	running.Go(func() { _ = outside.Serve(ln) })
	running.Go(func() {
		_ = inside.Serve(tls.NewListener(p.tunnels, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.certificate}))
	})
	t.Cleanup(func() {
		outside.Close()
		inside.Close()
		running.Wait()
		out.CloseIdleConnections()
	})
	return p
}

// machineRoots are the authorities that the programs of this machine trust.
func machineRoots(t *testing.T) *x509.CertPool {
	t.Helper()
	roots, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE"} {
		if text, err := os.ReadFile(os.Getenv(name)); err == nil {
			roots.AppendCertsFromPEM(text)
		}
	}
	return roots
}

// authority makes the authority of the proxy.
func (p *interceptor) authority(t *testing.T) {
	t.Helper()
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test Authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.caFile = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(p.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate makes the certificate of a host, for each connection anew.
func (p *interceptor) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: hello.ServerName}, DNSNames: []string{hello.ServerName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, p.key.Public(), p.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: p.key}, nil
}

// tunnel hands a connection to the server inside.
func (p *interceptor) tunnel(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		conn.Close()
		return
	}
	select {
	case p.tunnels.conns <- conn:
	case <-p.tunnels.closed:
		conn.Close()
	}
}

// requests is how many requests there were for a host.
func (p *interceptor) requests(host string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[host]
}
