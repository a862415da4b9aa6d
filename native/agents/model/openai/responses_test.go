package openai

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

// A body that is sent again is the same, though another request has found out meanwhile that the
// model gives no reasoning. The request is made again without asking for it all the same.
func TestBodyIsTheSameAgain(t *testing.T) {
	t.Parallel()
	request := &model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}
	var c *Responses
	var asked []bool // for reasoning, by each request
	client := roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		first, asks := len(asked) == 0, bytes.Contains(body, []byte("reasoning.encrypted_content"))
		asked = append(asked, asks)
		if first { // another request is made, and refused, while this one waits
			if turn, err := c.Infer(t.Context(), request, nil); err != nil || turn.Text != "done" {
				t.Errorf("the other one: %+v, %v", turn, err)
			}
			again, err := r.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if second, err := io.ReadAll(again); err != nil || !bytes.Equal(second, body) {
				t.Errorf("%s, then %s, %v", body, second, err)
			}
		}
		status, answer := http.StatusOK, `{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}]}`
		if asks {
			status, answer = http.StatusBadRequest, `{"error":{"type":"invalid_request_error","param":"include","message":"no"}}`
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer))}, nil
	})
	c, err := NewResponses(&model.Endpoint{URL: "http://model.example/v1", HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	if turn, err := c.Infer(t.Context(), request, nil); err != nil || turn.Text != "done" {
		t.Errorf("%+v, %v", turn, err)
	}
	if len(asked) != 4 || !asked[0] || !asked[1] || asked[2] || asked[3] {
		t.Errorf("%v", asked)
	}
}
