package mcp_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/mcp"
)

var update = flag.Bool("update", false, "write the goldens of testdata/wire anew")

// TestWire runs the cases of testdata/wire. A case NAME is three files of an
// archive: NAME/in is a message, NAME/do what the gateway does to it, a step a
// line, and NAME/out what must leave, byte for byte. The line break at the end
// of in and out belongs to the archive and not to the message.
//
//	id RAW          splice another id into the message
//	frame RAW       make the envelope anew, with this id
//	set KEY RAW     set a member of params or result
//	remove KEY      remove one
//	meta MEMBERS    rewrite _meta, adding MEMBERS
//	line            frame as one line
//	canonical       the canonical form of params or result
func TestWire(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "wire", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) == 0 || len(archive.Files)%3 != 0 {
				t.Fatalf("%s has %d files, want three a case", file, len(archive.Files))
			}
			for i := 0; i < len(archive.Files); i += 3 {
				in, do, out := archive.Files[i], archive.Files[i+1], &archive.Files[i+2]
				name, ok := strings.CutSuffix(in.Name, "/in")
				if !ok || do.Name != name+"/do" || out.Name != name+"/out" {
					t.Fatalf("%s: %s, %s, %s are not a case", file, in.Name, do.Name, out.Name)
				}
				t.Run(name, func(t *testing.T) {
					got := runWire(t, bytes.TrimSuffix(in.Data, []byte("\n")), string(do.Data))
					if *update {
						out.Data = append(got, '\n')
						return
					}
					if want := bytes.TrimSuffix(out.Data, []byte("\n")); !bytes.Equal(got, want) {
						t.Errorf("sent\n%s\nwant\n%s", got, want)
					}
				})
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func runWire(t *testing.T, raw []byte, steps string) []byte {
	t.Helper()
	original := bytes.Clone(raw)
	out := raw
	for step := range strings.Lines(steps) {
		verb, rest, _ := strings.Cut(strings.TrimSuffix(step, "\n"), " ")
		m, err := mcp.Parse(out, mcp.Limits{LoneSurrogates: true})
		if err != nil {
			t.Fatalf("before %s: %v in %s", step, err, out)
		}
		out, err = wireStep(&m, verb, rest)
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(raw, original) {
		t.Errorf("the message that came was changed to %s", raw)
	}
	if err := mcp.Validate(out, mcp.Limits{LoneSurrogates: true}); err != nil {
		t.Errorf("what leaves is not JSON: %v", err)
	}
	return out
}

func wireStep(m *mcp.Message, verb, rest string) ([]byte, error) {
	payload, where := m.Params(), "params"
	if m.Result() != nil {
		payload, where = m.Result(), "result"
	}
	replace := func(changed []byte) []byte { return mcp.SetMember(m.Raw, where, changed) }
	switch verb {
	case "id":
		return mcp.Splice(m.Raw, mcp.Edit{Span: mcp.LookupSpan(m.Raw, "id"), New: []byte(rest)}), nil
	case "frame":
		switch {
		case m.Kind == mcp.KindRequest:
			return mcp.AppendRequest(nil, mcp.ID(rest), m.Method, m.Params()), nil
		case m.Kind == mcp.KindNotification:
			return mcp.AppendNotification(nil, m.Method, m.Params()), nil
		case m.Fault() != nil:
			return mcp.AppendFault(nil, mcp.ID(rest), mcp.ParseError(m.Fault())), nil
		default:
			return mcp.AppendResult(nil, mcp.ID(rest), m.Result()), nil
		}
	case "set":
		key, value, _ := strings.Cut(rest, " ")
		return replace(mcp.SetMember(payload, key, []byte(value))), nil
	case "remove":
		return replace(mcp.RemoveMember(payload, rest)), nil
	case "meta":
		return replace(mcp.RewriteMeta(payload, []byte(rest))), nil
	case "line":
		return mcp.AppendLine(nil, m.Raw), nil
	case "canonical":
		return replace(mcp.AppendCanonical(nil, payload)), nil
	default:
		return nil, fmt.Errorf("no step %q", verb)
	}
}
