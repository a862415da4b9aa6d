package modeltest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/toolgate/toolgate/native/agents/model"
)

// FuzzAnswers has each client read whatever an endpoint may answer. An answer becomes a
// turn within the bounds, which survives the journal and can be given back, or an error of
// a kind.
func FuzzAnswers(f *testing.F) {
	files, err := filepath.Glob("testdata/answers/*")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")))
	}
	var answer []byte
	var sent []byte
	h := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent, _ = io.ReadAll(r.Body)
		body := io.NopCloser(iotest.HalfReader(strings.NewReader(string(answer))))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
	})
	models := map[string]model.Model{}
	for _, format := range formats {
		models[format] = client(f, format, &model.Endpoint{URL: "https://models.example", HTTP: h})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for format, m := range models {
			answer = data
			r := ask("well?")
			turn, err := m.Infer(t.Context(), r, func(model.Delta) {})
			if err != nil {
				if fault, ok := errors.AsType[*model.Error](err); !ok || fault.Kind == "" || len(fault.Detail) > 500 {
					t.Fatalf("%s: %#v", format, err)
				}
				continue
			}
			checkTurn(t, format, turn)
			kept, err := json.Marshal(turn)
			if err != nil {
				t.Fatalf("%s: the journal does not take it: %v", format, err)
			}
			var back model.Turn
			if err := json.Unmarshal(kept, &back); err != nil {
				t.Fatalf("%s: the journal does not give it back: %v", format, err)
			}
			again, err := json.Marshal(back)
			if err != nil || string(again) != string(kept) {
				t.Fatalf("%s: the journal changes it: %s, %s", format, kept, again)
			}
			r.Messages = append(r.Messages, back.Message)
			next := model.Message{Role: model.User, Text: "go on"}
			if len(turn.Calls) > 0 {
				next = model.Message{Role: model.Tools}
				for _, c := range turn.Calls {
					next.Results = append(next.Results, model.Result{Call: c.ID, Text: "done"})
				}
			}
			r.Messages = append(r.Messages, next)
			sent, answer = nil, nil
			_, _ = m.Infer(t.Context(), r, nil) // the request alone is of interest
			if !json.Valid(sent) {
				t.Fatalf("%s: the turn cannot be given back: %q", format, sent)
			}
		}
	})
}

func checkTurn(t *testing.T, format string, turn *model.Turn) {
	t.Helper()
	if len(turn.Calls) > model.MaxCalls || turn.Stop == "" || turn.Role != model.Assistant {
		t.Fatalf("%s: %+v", format, turn)
	}
	ids := map[string]bool{}
	for _, c := range turn.Calls {
		var args map[string]json.RawMessage
		switch {
		case c.ID == "" || ids[c.ID]:
			t.Fatalf("%s: the ids of %+v", format, turn.Calls)
		case c.Broken == "" && (json.Unmarshal(c.Args, &args) != nil || args == nil || c.Tool == ""):
			t.Fatalf("%s: %+v is not broken", format, c)
		case c.Broken != "" && (c.Args != nil || len(c.Raw) > 5000):
			t.Fatalf("%s: %+v", format, c)
		case !utf8.ValidString(c.Tool) || len(c.Tool) > 400 || !utf8.ValidString(c.Raw):
			t.Fatalf("%s: %+v", format, c)
		}
		ids[c.ID] = true
	}
}
