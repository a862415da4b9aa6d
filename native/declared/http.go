package declared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/native/placeholder"
)

// runner runs a tool.
type runner interface {
	// run returns an outcome. The error is a [placeholder.Problem] for the caller or the reason why there is no outcome.
	run(ctx context.Context, v placeholder.Values, args []byte) (outcome, error)
	// check returns the problem with the values for which run would do nothing.
	check(ctx context.Context, v placeholder.Values, args []byte) error
	close()
}

// outcome is what a tool returned.
type outcome struct {
	text   []byte
	json   bool   // the text is, or may be, JSON
	cut    bool   // the rest is missing
	failed string // how it failed; empty if it did not
	more   string // further output, such as on standard error
}

// request is a declared HTTP request.
type request struct {
	of      *compiled
	spec    *HTTP
	url     *egress.Template
	query   string // of fixed values, encoded
	headers []headerTemplate
	body    *placeholder.Value
	client  *egress.Client
}

type headerTemplate struct {
	name  string
	value placeholder.Text
}

// ownHeaders are headers of the connection, which tools cannot set.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Expect", "Accept-Encoding", "Proxy-Authorization", "Proxy-Connection"}

func newRequest(c *compiled, spec *HTTP) (*request, error) {
	own := *spec
	r := &request{of: c, spec: &own}
	var wrong []error
	if own.Method == "" {
		own.Method = http.MethodGet
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}, own.Method) {
		wrong = append(wrong, fmt.Errorf("the method %q is none; write GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS", own.Method))
	}
	var err error
	if r.url, err = egress.ParseTemplate(own.URL); err != nil {
		wrong = append(wrong, err)
	}
	wrong = append(wrong, r.fixed(c), r.templates())
	if own.Body != nil {
		b, err := placeholder.ParseValue(own.Body)
		wrong = append(wrong, err)
		r.body = &b
		if own.Method == http.MethodGet || own.Method == http.MethodHead {
			wrong = append(wrong, fmt.Errorf("a request with the method %s has no body", own.Method))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	policy := r.url.Policy()
	policy.Allow = append(policy.Allow, own.Allow...)
	guard, err := egress.New(policy)
	if err != nil {
		return nil, err
	}
	r.client = egress.NewClient(guard, egress.Limits{Timeout: maxTime, Body: c.MaxBytes, Redirects: own.Redirects}, nil)
	return r, nil
}

// fixed checks fixed values and registers them as secrets.
func (r *request) fixed(c *compiled) error {
	var wrong []error
	for name, value := range r.spec.Headers {
		wrong = append(wrong, headerName(name))
		if !headerValue(value) {
			wrong = append(wrong, fmt.Errorf("the header %s has a line break or control character in its value", name))
		}
		c.keep(value)
	}
	query := url.Values{}
	for name, value := range r.spec.Query {
		query.Set(name, value)
		c.keep(value)
		c.keep(url.QueryEscape(value))
	}
	r.query = query.Encode()
	return errors.Join(wrong...)
}

func (r *request) templates() error {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(r.spec.HeaderTemplates)) {
		wrong = append(wrong, headerName(name))
		value, err := placeholder.ParseText(r.spec.HeaderTemplates[name])
		wrong = append(wrong, err)
		for fixed := range r.spec.Headers {
			if strings.EqualFold(fixed, name) {
				wrong = append(wrong, fmt.Errorf("the header %s is there twice", name))
			}
		}
		r.headers = append(r.headers, headerTemplate{name, value})
	}
	return errors.Join(wrong...)
}

func headerName(name string) error {
	if name == "" || strings.Trim(name, nameLetters+"!#$%&'*+.^`|~") != "" {
		return fmt.Errorf("%q is not the name of a header", name)
	}
	if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("the header %s is the connection's own", name)
	}
	return nil
}

func headerValue(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func (r *request) names() []string {
	out := r.url.Names()
	for _, h := range r.headers {
		out = append(out, h.value.Names()...)
	}
	if r.body != nil {
		out = append(out, r.body.Names()...)
	}
	return out
}

// needed returns the placeholders that always need a value. For those of the path and
// query, the call reports what is missing.
func (r *request) needed() []string {
	var out []string
	for _, h := range r.headers {
		out = append(out, h.value.Names()...)
	}
	return out
}

func (r *request) close() { r.client.Close() }

func (r *request) run(ctx context.Context, v placeholder.Values, args []byte) (outcome, error) {
	req, err := r.make(ctx, v, args)
	if err != nil {
		return outcome{}, err
	}
	got, err := r.client.Do(ctx, req)
	if err != nil {
		return outcome{}, err
	}
	return r.outcome(got)
}

func (r *request) check(ctx context.Context, v placeholder.Values, args []byte) error {
	_, err := r.make(ctx, v, args)
	return err
}

// make creates the request of a call.
func (r *request) make(ctx context.Context, v placeholder.Values, args []byte) (*http.Request, error) {
	var bad error
	where, err := r.url.Expand(func(name string) []string {
		texts, err := v.Texts(name)
		bad = errors.Join(bad, err)
		return texts
	})
	if err = errors.Join(bad, err); err != nil {
		return nil, err
	}
	if r.query != "" {
		sign := "?"
		if strings.Contains(where, "?") {
			sign = "&"
		}
		where += sign + r.query
	}
	var content io.Reader = http.NoBody
	if r.body != nil {
		raw, there, err := r.body.Append(nil, v, args)
		if err != nil {
			return nil, err
		}
		if there {
			content = bytes.NewReader(raw)
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.spec.Method, where, content)
	if err != nil {
		return nil, placeholder.Problemf("The arguments make no address.") // without the error, which repeats the address
	}
	req.Header.Set("User-Agent", "toolgate")
	req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
	if content != http.NoBody {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range r.headers {
		value, err := h.value.Fill(v)
		if err != nil {
			return nil, err
		}
		if !headerValue(value) {
			return nil, placeholder.Problemf("The arguments %s go into a header and may not hold line breaks or control characters.", strings.Join(h.value.Names(), ", "))
		}
		req.Header.Set(h.name, value)
	}
	for name, value := range r.spec.Headers {
		req.Header.Set(name, value)
	}
	return req, nil
}

func (r *request) outcome(got *egress.Answer) (outcome, error) {
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	out := outcome{text: got.Body, json: isJSON || kind == "" || kind == "text/plain", cut: got.Cut}
	switch {
	case got.Status >= http.StatusBadRequest:
		out.failed = fmt.Sprintf("The service answered %d %s.", got.Status, http.StatusText(got.Status))
	case got.Status >= http.StatusMultipleChoices:
		out.failed = fmt.Sprintf("The service answered %d %s, a redirect that is not followed.", got.Status, http.StatusText(got.Status))
	}
	if !isJSON && !utf8.Valid(got.Body) || bytes.IndexByte(got.Body, 0) >= 0 {
		if kind == "" {
			kind = http.DetectContentType(got.Body)
		}
		if out.failed == "" {
			out.failed = fmt.Sprintf("The service answered with %s, which is not text.", kind)
		}
		out.text = nil
	}
	return out, nil
}
