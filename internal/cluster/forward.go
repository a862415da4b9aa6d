package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/proxy/replica"
)

// What members say to one another beside the request itself. A client's own headers of these
// names are dropped.
const (
	headerWire   = "Toolgate-Wire"          // [Wire]
	headerRemote = "Toolgate-Remote"        // address of the client's connection
	headerChain  = "Toolgate-Client-Chain"  // its verified certificates, DER in base64, commas between them
	headerShown  = "Toolgate-Client-Shown"  // the certificates that it showed, where none were verified
	headerSecure = "Toolgate-Client-Secure" // "1" where it uses TLS
)

const (
	dialTime = 2 * time.Second
	// writeTime is how long a client may take to read a part of an answer.
	writeTime = 60 * time.Second
	// maxSingles bounds the connections with one request each.
	maxSingles = 64
	// streamsPerLink bounds the requests of one connection; more open another one.
	streamsPerLink = 1000
	copyBuffer     = 32 << 10
)

// repeats are headers by which the standard library takes a request for one that it may send
// twice.
var repeats = []string{"Idempotency-Key", "X-Idempotency-Key"}

// hopByHop are the headers of one connection (RFC 9110 section 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// link are the connections to one member. Streams share connections of HTTP/2, of which
// there may be thousands. Other requests take a connection of HTTP/1.1 each, which costs a
// third less, as long as there are not too many.
type link struct {
	streams, single *http.Transport
	places          chan struct{} // taken by requests that have a connection of their own
}

// newLink returns the connections to a member.
func newLink(a *authority, id string) *link {
	l := &link{streams: newTransport(a.client(id, "h2")), single: newTransport(a.client(id, "http/1.1")), places: make(chan struct{}, maxSingles)}
	l.single.ForceAttemptHTTP2, l.single.MaxIdleConnsPerHost = false, maxSingles
	return l
}

// roundTrip sends a request over one of the connections. done is called once the answer was
// read.
func (l *link) roundTrip(r *http.Request) (answer *http.Response, done func(), err error) {
	over, done := l.streams, func() {}
	if r.Method != http.MethodGet {
		select {
		case l.places <- struct{}{}:
			over, done = l.single, func() { <-l.places }
		default: // streams have room
		}
	}
	answer, err = over.RoundTrip(r)
	return answer, done, err
}

func (l *link) closeIdle() {
	l.streams.CloseIdleConnections()
	l.single.CloseIdleConnections()
}

// newTransport returns the connections of one protocol.
func newTransport(conf *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: dialTime,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		IdleConnTimeout:     2 * time.Minute,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// Forward implements [replica.Peers].
func (c *Cluster) Forward(w http.ResponseWriter, r *http.Request, to string, body, lost []byte) error {
	l, address, err := c.link(to)
	if err != nil {
		return &replica.LostError{Err: err}
	}
	var sent atomic.Bool
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}))
	defer cancel()
	out := (&http.Request{
		Method: r.Method, URL: cloneURL(r, address), Host: r.Host, Header: outgoing(r), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if body != nil {
		out.ContentLength = int64(len(body))
		// For a kept connection that turns out to be closed before anything was written.
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	answer, done, err := l.roundTrip(out)
	defer done()
	if err != nil {
		if r.Context().Err() == nil {
			c.suspect(to)
			c.o.Log.Warn("a gateway does not answer", "member", to, "address", address, "err", err)
		}
		return &replica.LostError{MayHaveRun: sent.Load(), Err: err}
	}
	defer answer.Body.Close()
	c.copyAnswer(w, r, answer, lost)
	return nil
}

// copyAnswer writes the answer of another member as it comes. Where that breaks off in a
// stream of events, lost ends it; any other answer is broken off, too.
func (c *Cluster) copyAnswer(w http.ResponseWriter, r *http.Request, answer *http.Response, lost []byte) {
	head := w.Header()
	for _, name := range hopByHop {
		answer.Header.Del(name)
	}
	maps.Copy(head, answer.Header)
	w.WriteHeader(answer.StatusCode)
	control := http.NewResponseController(w)
	buffer := make([]byte, copyBuffer)
	events := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	if events {
		_ = control.Flush()
	}
	for {
		n, err := answer.Body.Read(buffer)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(writeTime))
			if _, bad := w.Write(buffer[:n]); bad != nil {
				return
			}
			if events {
				_ = control.Flush()
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) || r.Context().Err() != nil:
		case events && lost != nil:
			_ = control.SetWriteDeadline(time.Now().Add(writeTime))
			_, _ = w.Write(lost)
			_ = control.Flush()
		default:
			panic(http.ErrAbortHandler) // the client sees that the rest is missing
		}
		return
	}
}

// cloneURL is the address of a request at another member.
func cloneURL(r *http.Request, address string) *url.URL {
	return &url.URL{Scheme: "https", Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
}

// outgoing returns the headers of a request for another member.
func outgoing(r *http.Request) http.Header {
	h := r.Header.Clone()
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range slices.Concat(hopByHop, repeats, []string{headerRemote, headerChain, headerShown, headerSecure}) {
		h.Del(name)
	}
	h.Set(headerWire, strconv.Itoa(Wire))
	h.Set(headerRemote, r.RemoteAddr)
	if r.TLS != nil {
		h.Set(headerSecure, "1")
		if len(r.TLS.VerifiedChains) > 0 {
			h.Set(headerChain, encodeChain(r.TLS.VerifiedChains[0]))
		} else if len(r.TLS.PeerCertificates) > 0 {
			h.Set(headerShown, encodeChain(r.TLS.PeerCertificates))
		}
	}
	return h
}

func encodeChain(chain []*x509.Certificate) string {
	var all []string
	for _, cert := range chain {
		all = append(all, base64.StdEncoding.EncodeToString(cert.Raw))
	}
	return strings.Join(all, ",")
}

func decodeChain(text string) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for one := range strings.SplitSeq(text, ",") {
		raw, err := base64.StdEncoding.DecodeString(one)
		if err != nil {
			return nil, err
		}
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// arrive turns a request of another member into the client's own, or says why it is none.
func arrive(r *http.Request) (*http.Request, error) {
	if got := r.Header.Get(headerWire); got != strconv.Itoa(Wire) {
		return nil, fmt.Errorf("it speaks version %q of the internal link, and this gateway %d", got, Wire)
	}
	in := r.WithContext(replica.WithForwarded(r.Context()))
	in.Header = r.Header.Clone()
	in.RemoteAddr, in.TLS = r.Header.Get(headerRemote), nil
	if in.RemoteAddr == "" {
		return nil, errors.New("it does not say where the client is")
	}
	if r.Header.Get(headerSecure) == "1" {
		in.TLS = &tls.ConnectionState{HandshakeComplete: true}
	} else if r.Header.Get(headerChain)+r.Header.Get(headerShown) != "" {
		return nil, errors.New("its client has a certificate and no TLS")
	}
	if r.Header.Get(headerChain) != "" && r.Header.Get(headerShown) != "" {
		return nil, errors.New("it says twice which certificates its client has")
	}
	for name, verified := range map[string]bool{headerChain: true, headerShown: false} {
		text := r.Header.Get(name)
		if text == "" {
			continue
		}
		chain, err := decodeChain(text)
		if err != nil {
			return nil, fmt.Errorf("the certificates of its client cannot be read: %w", err)
		}
		in.TLS.PeerCertificates = chain
		if verified {
			in.TLS.VerifiedChains = [][]*x509.Certificate{chain}
		}
	}
	for _, name := range []string{headerWire, headerRemote, headerChain, headerShown, headerSecure} {
		in.Header.Del(name)
	}
	return in, nil
}

// Handler serves the requests that other members pass on, by h, which serves clients. It
// serves MCP endpoints alone.
func (c *Cluster) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "members show their certificate", http.StatusForbidden)
			return
		}
		path := r.URL.Path
		if path != "/message" && path != "/mcp" && !strings.HasPrefix(path, "/mcp/") {
			http.Error(w, "members pass requests of MCP on, and nothing else", http.StatusNotFound)
			return
		}
		in, err := arrive(r)
		if err != nil {
			c.o.Log.Warn("a request of another gateway was refused", "member", r.TLS.PeerCertificates[0].Subject.CommonName, "err", err)
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, in)
	})
}

// Serve serves a listener for other members until the context ends, and then as long as
// requests under way may take.
func (c *Cluster) Serve(ctx context.Context, l net.Listener, h http.Handler, longer func() time.Duration) error {
	server := &http.Server{
		Handler: c.Handler(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 256 << 10,
		TLSConfig: c.authority.server(), ErrorLog: slog.NewLogLogger(c.o.Log.Handler(), slog.LevelWarn), // says who was refused
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: streamsPerLink, SendPingTimeout: 30 * time.Second, PingTimeout: 10 * time.Second},
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(l, "", "") }() // ends with Shutdown below
	select {
	case err := <-done:
		return fmt.Errorf("serve the other gateways: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), longer())
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the other gateways: %w", err)
	}
	return nil
}
