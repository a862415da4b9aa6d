package home

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/proxy/about"
)

// Client is a program that can be pointed at the gateway.
type Client struct {
	Title string // what it calls itself
	Name  string // as `toolgate connect` knows it
	File  string // where its entry belongs
	Entry string // what is written there
	After string // what to do then
}

// Options are what the page is made of. All of it is needed.
type Options struct {
	// URL is where clients reach the gateway, without a path; empty is the address that
	// the browser has used.
	URL func() string
	// Hosts are the names by which the gateway is known. A browser that uses another one
	// gets no page: clients would be given the address of whoever made that name.
	Hosts []string
	// Keys tells whether callers authenticate.
	Keys func() bool
	// Clients returns the clients that the page has entries for, given the URL of the
	// endpoint.
	Clients func(url string, keys bool) []Client
}

//go:embed page.html
var text string

//go:embed page.css
var style string

var (
	page = template.Must(template.New("page").Parse(text))
	// policy lets the page have its own style and nothing else.
	policy = func() string {
		sum := sha256.Sum256([]byte(style))
		return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	}()
)

// Page wraps the handler of a gateway. A browser at the root gets the page where the gateway
// would have told it in plain text what it is, and everything else from the gateway.
func Page(gateway http.Handler, o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || !about.Browser(r) || o.URL() == "" && !o.known(r.Host) {
			gateway.ServeHTTP(w, r)
			return
		}
		asked := &answer{ResponseWriter: w}
		gateway.ServeHTTP(asked, r)
		if asked.status == http.StatusOK {
			o.write(w, r)
		}
	})
}

// known reports whether an address that a browser has used is the gateway's own: by number,
// as the machine that it runs on, or by a name of the operator's.
func (o *Options) known(address string) bool {
	host := loopback.Name(address)
	if net.ParseIP(host) != nil || loopback.Host(host) {
		return true
	}
	return slices.ContainsFunc(o.Hosts, func(name string) bool { return strings.EqualFold(name, host) || strings.EqualFold(name, address) })
}

// write writes the page.
func (o *Options) write(w http.ResponseWriter, r *http.Request) {
	at, keys := o.URL(), o.Keys()
	if at == "" {
		at = "http://" + r.Host
		if r.TLS != nil {
			at = "https://" + r.Host
		}
	}
	at += "/mcp"
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]any{"URL": at, "Keys": keys, "Clients": o.Clients(at, keys), "Style": template.CSS(style)}); err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(b.Bytes()) // nothing for HEAD
}

// answer holds back a success of the gateway, and lets everything else through.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	if a.status != http.StatusOK {
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.status == http.StatusOK {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
