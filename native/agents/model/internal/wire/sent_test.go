package wire

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/agents/model"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// whole takes an answer that is one document.
type whole struct{ Reader }

func (whole) Whole([]byte) error { return nil }

func (whole) Usage() model.Usage { return model.Usage{} }

// A body is let go once it is sent. Where it has to be sent again, it is the same.
func TestBodyIsLetGo(t *testing.T) {
	t.Parallel()
	const text = `{"model":"m"}`
	written := 0
	e := &model.Endpoint{URL: "http://model.example", HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
		body := r.Body.(*sent)
		first, err := io.ReadAll(body)
		if err != nil || string(first) != text || r.ContentLength != int64(len(text)) || body.left != nil {
			t.Errorf("sent %q of %d bytes, %v; %d are held", first, r.ContentLength, err, len(body.left))
		}
		next, err := r.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		again, err := io.ReadAll(io.LimitReader(next, 5))
		if err != nil || string(again) != text[:5] {
			t.Errorf("sent again: %q, %v", again, err)
		}
		if next.Close(); next.(*sent).left != nil {
			t.Error("a body is held that was closed")
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})}
	err := Do(t.Context(), e, e.URL, http.Header{}, func() ([]byte, error) { written++; return bytes.Clone([]byte(text)), nil }, whole{})
	if err != nil || written != 2 {
		t.Errorf("%v, written %d times", err, written)
	}
}

// What cannot be written is not sent.
func TestBodyThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	e := &model.Endpoint{URL: "http://model.example", HTTP: roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("something is sent")
		return nil, io.EOF
	})}
	want := model.Errorf(model.Refused, "no")
	if err := Do(t.Context(), e, e.URL, http.Header{}, func() ([]byte, error) { return nil, want }, whole{}); err != want { //nolint:errorlint // the very one
		t.Errorf("%v", err)
	}
}
