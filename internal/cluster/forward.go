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
	headerShown  = "Toolgate-Client-Shown"  // the certificates that it showed, DER in base64, commas between them
	headerSecure = "Toolgate-Client-Secure" // "1" where it uses TLS
)

// ours are these headers.
var ours = []string{headerWire, headerRemote, headerShown, headerSecure}

// Verifier returns the chains from certificates of a client, its own first, to authorities
// whose clients count at this gateway. The error says that there is none.
type Verifier func(shown []*x509.Certificate) ([][]*x509.Certificate, error)

const (
	dialTime = 2 * time.Second
	// lostTime is how long what was sent may go unconfirmed before its connection is given up.
	lostTime = 10 * time.Second
	// maxSingles bounds the connections with one request each.
	maxSingles = 64
	// streamsPerLink bounds the requests of one connection; more open another one.
	streamsPerLink = 1000
	// streamBuffer bounds the bytes of one stream that nobody has read yet, and connectionBuffer
	// those of all streams of a connection: one that is not read holds up no other.
	streamBuffer     = 1 << 20
	connectionBuffer = 64 << 20
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

	life context.Context // of requests; ends once the member is gone
	end  context.CancelFunc
}

// newLink returns the connections to a member.
func newLink(a *authority, id string) *link {
	l := &link{streams: newTransport(a.client(id, "h2")), single: newTransport(a.client(id, "http/1.1")), places: make(chan struct{}, maxSingles)}
	l.single.ForceAttemptHTTP2, l.single.MaxIdleConnsPerHost = false, maxSingles
	l.life, l.end = context.WithCancel(context.Background())
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

// leave ends the connections to a member that is gone, at once those without a request. One
// that has left has answered its requests, or is about to.
func (l *link) leave() {
	l.streams.CloseIdleConnections()
	l.single.CloseIdleConnections()
	time.AfterFunc(leaveTime, l.end)
}

// newTransport returns the connections of one protocol.
func newTransport(conf *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTime, Control: control}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: dialTime,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		IdleConnTimeout:     2 * time.Minute,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second,
			MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer,
		},
	}
}

// Forward implements [replica.Peers].
func (c *Cluster) Forward(w http.ResponseWriter, r *http.Request, to string, m replica.Message) error {
	l, address, err := c.link(to)
	if err != nil {
		return &replica.LostError{Err: err}
	}
	var sent, unreachable atomic.Bool
	connected := func(err error) {
		if err != nil {
			unreachable.Store(true)
		}
	}
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { sent.Store(true) },
		ConnectDone:      func(_, _ string, err error) { connected(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { connected(err) },
	}))
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	out := (&http.Request{
		Method: r.Method, URL: cloneURL(r, address), Host: r.Host, Header: outgoing(r), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if m.Body != nil {
		out.ContentLength = int64(len(m.Body))
		// For a kept connection that turns out to be closed before anything was written.
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.Body)), nil }
		out.Body, _ = out.GetBody()
	}
	answer, done, err := l.roundTrip(out)
	defer done()
	if err != nil {
		if r.Context().Err() == nil && !sent.Load() && unreachable.Load() {
			c.suspect(to)
			c.o.Log.Warn("a gateway does not answer", "member", to, "address", address, "err", err)
		}
		return &replica.LostError{MayHaveRun: sent.Load(), Err: err}
	}
	defer answer.Body.Close()
	if answer.Header.Get(replica.HeaderDeclined) != "" { // it ends; the others hear of that soon
		c.suspect(to)
		return &replica.LostError{Err: errors.New("it takes nothing new")}
	}
	copyAnswer(w, r, answer, m)
	return nil
}

// cloneURL is the address of a request at another member.
func cloneURL(r *http.Request, address string) *url.URL {
	return &url.URL{Scheme: "https", Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
}

// outgoing returns the headers of a request for another member.
func outgoing(r *http.Request) http.Header {
	h := r.Header.Clone()
	for _, name := range slices.Concat(hopByHop, repeats, ours) {
		h.Del(name)
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // else the standard library names itself
	}
	h.Set(headerWire, strconv.Itoa(Wire))
	h.Set(headerRemote, r.RemoteAddr)
	if r.TLS != nil {
		h.Set(headerSecure, "1")
		if len(r.TLS.PeerCertificates) > 0 {
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
// verify decides about the certificates of its client.
func arrive(r *http.Request, verify Verifier) (*http.Request, error) {
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
	}
	if shown := r.Header.Get(headerShown); shown != "" {
		if in.TLS == nil {
			return nil, errors.New("its client has a certificate and no TLS")
		}
		var err error
		if in.TLS.PeerCertificates, err = decodeChain(shown); err != nil {
			return nil, fmt.Errorf("the certificates of its client cannot be read: %w", err)
		}
		if in.TLS.VerifiedChains, err = verify(in.TLS.PeerCertificates); err != nil {
			return nil, fmt.Errorf("the certificates of its client do not count here: %w", err)
		}
	}
	for _, name := range ours {
		in.Header.Del(name)
	}
	return in, nil
}

// Handler serves the requests that other members pass on, by h, which serves clients, and the
// processes that they share with this one. It serves nothing else.
func (c *Cluster) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "members show their certificate", http.StatusForbidden)
			return
		}
		path := r.URL.Path
		if strings.HasPrefix(path, serversPath) {
			c.serveServer(w, r)
			return
		}
		if path != "/message" && path != "/mcp" && !strings.HasPrefix(path, "/mcp/") {
			http.Error(w, "members pass requests of MCP on, and nothing else", http.StatusNotFound)
			return
		}
		in, err := arrive(r, c.o.Verify)
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
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerLink, SendPingTimeout: 30 * time.Second, PingTimeout: 10 * time.Second,
			MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer,
		},
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
