package modeltest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/native/agents/model"
)

var update = flag.Bool("update", false, "write the golden files")

// TestRequests compares the requests of all formats with testdata/requests. There, they are
// indented.
func TestRequests(t *testing.T) {
	files, err := filepath.Glob("testdata/requests/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r model.Request
			if err := json.Unmarshal(a.Files[0].Data, &r); err != nil {
				t.Fatal(err)
			}
			got := []txtar.File{a.Files[0]}
			for _, format := range formats {
				var b bytes.Buffer
				if err := json.Indent(&b, body(t, format, &r), "", " "); err != nil {
					t.Fatal(err)
				}
				b.WriteByte('\n')
				got = append(got, txtar.File{Name: format + ".json", Data: b.Bytes()})
			}
			if *update {
				a.Files = got
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(a)), string(txtar.Format(&txtar.Archive{Comment: a.Comment, Files: got}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// body returns the request that a client makes.
func body(t testing.TB, format string, r *model.Request) []byte {
	var out []byte
	h := roundTrip(func(r *http.Request) (*http.Response, error) {
		out, _ = io.ReadAll(r.Body)
		return nil, errors.New("enough")
	})
	m := client(t, format, &model.Endpoint{URL: "https://models.example", HTTP: h, Parameters: map[string]json.RawMessage{"metadata": json.RawMessage(`{"user_id":"u-1"}`)}})
	if _, err := m.Infer(t.Context(), r, nil); out == nil {
		t.Fatal(err)
	}
	return out
}
