// Package wire is what the clients of all wire formats have in common: one request over
// HTTP, answers as server-sent events or as a whole, errors, and what is taken of a call.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/native/agents/model"
)

// maxFault is how much of an answer is read that says what is wrong, in bytes.
const maxFault = 64 << 10

// Reader takes an answer apart. Its errors are of type [*model.Error].
type Reader interface {
	// Whole takes an answer that is one JSON document.
	Whole(body []byte) error
	// Event takes an event of a stream, and returns true with the last one. The data is
	// valid until it returns.
	Event(data []byte) (bool, error)
	// End takes the end of a stream that comes without a last event.
	End() error
	// Usage returns what has been said of the cost.
	Usage() model.Usage
}

// CheckEndpoint returns what is wrong with an endpoint of a format.
func CheckEndpoint(e *model.Endpoint, f model.Format) error {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the url of a model's endpoint begins with https:// or http:// and a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the url of a model's endpoint has no user, query or fragment")
	case e.HTTP == nil:
		return errors.New("a model's endpoint needs a transport for HTTP")
	}
	_, err = model.CheckParameters(f, e.Parameters)
	return err
}

// Body returns a request as JSON, with the parameters of the endpoint after what the
// client writes.
func Body(e *model.Endpoint, request any) ([]byte, error) {
	text, err := JSON(request)
	if err != nil {
		return nil, model.Errorf(model.Refused, "the request cannot be written as JSON: %w", err)
	}
	b := bytes.NewBuffer(bytes.TrimSuffix(text, []byte("}")))
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		key, _ := json.Marshal(name) // a string always can
		fmt.Fprintf(b, ",%s:%s", key, e.Parameters[name])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Do makes one request, and hands its answer to a reader. Nothing is repeated. write writes the
// same body each time; see [sent]. Bodies are written and answers read apart, because they need
// a larger stack than the wait for the model, which may take long.
func Do(ctx context.Context, e *model.Endpoint, address string, header http.Header, write func() ([]byte, error), r Reader) error {
	var body []byte
	err := background.Apart(func() (err error) { body, err = write(); return err })
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &sent{left: body})
	if err != nil {
		return model.Errorf(model.Refused, "the address cannot be used") // the original error contains it
	}
	req.Header, req.ContentLength = header, int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) {
		body, err := write()
		return &sent{left: body}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "toolgate")
	resp, err := e.HTTP.RoundTrip(req)
	if err != nil {
		return failed(ctx, err, false)
	}
	defer resp.Body.Close()
	return background.Apart(func() error { return take(ctx, e, resp, r) })
}

// take hands an answer to a reader.
func take(ctx context.Context, e *model.Endpoint, resp *http.Response, r Reader) error {
	in := &limited{in: resp.Body, left: model.MaxAnswer}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(in, maxFault)) // what came of it is enough
		if ctx.Err() != nil {
			return failed(ctx, nil, false)
		}
		return refusal(resp, text, e.Key)
	}
	err := read(in, r)
	if err == nil {
		return nil
	}
	fault, ok := errors.AsType[*model.Error](err)
	if !ok {
		if err = failed(ctx, err, true); !errors.As(err, &fault) {
			return err
		}
	}
	fault.Detail, fault.Usage = clean(fault.Detail, e.Key), r.Usage()
	return fault
}

// read reads an answer. A server that knows no streams answers with one document, whatever
// it says that it is.
func read(in io.Reader, r Reader) error {
	lines := newLines(in)
	first, err := lines.peek()
	if err != nil {
		return err
	}
	if first == '{' {
		body, err := io.ReadAll(lines.in)
		if err != nil {
			return err
		}
		return r.Whole(body)
	}
	for {
		data, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return r.End()
		case err != nil:
			return err
		}
		if done, err := r.Event(data); done || err != nil {
			return err
		}
	}
}

// failed returns the error of a request without an answer, or with one that broke off.
func failed(ctx context.Context, err error, begun bool) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask the model: %w", context.Cause(ctx))
	}
	timeout, isTimeout := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	_, isRefusal := errors.AsType[*egress.Refusal](err)
	switch {
	case errors.Is(err, egress.ErrTooLarge):
		fault := model.Errorf(model.BadAnswer, "its answer has more bytes than are taken")
		fault.Repeat = false
		return fault
	case isRefusal:
		return model.Errorf(model.Refused, "it may not be reached: %w", err)
	case isTimeout && timeout.Timeout():
		return model.Errorf(model.Timeout, "it took too long")
	case begun:
		return model.Errorf(model.BadAnswer, "its answer is cut short: %w", err)
	}
	return model.Errorf(model.Unreachable, "it cannot be reached: %w", err)
}

// limited is a body with a limit.
type limited struct {
	in   io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, egress.ErrTooLarge
	}
	n, err := l.in.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// JSON writes a value. Unlike [json.Marshal] it leaves "<", ">" and "&" as they are.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Decode reads JSON of an answer.
func Decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return model.Errorf(model.BadAnswer, "its answer is not JSON as this wire format has it") // the original error may hold texts
	}
	return nil
}

// ErrCut is the error of a stream that ends before its last event.
func ErrCut() error { return model.Errorf(model.BadAnswer, "its answer is cut short") }
