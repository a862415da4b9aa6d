package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/mcp"
)

// TestWire runs the conversations of testdata/wire. An archive is a
// conversation over the transport in its first line, with one server called
// files. Its file "server" is the era, the declared capabilities and what it
// offers, a line each. Then come steps, of up to four files:
//
//	N/client    what the client sends: a line on stdio, else an HTTP request
//	N/upstream  what the server does: lines of notify METHOD PARAMS, then
//	            result JSON or error JSON; ask METHOD PARAMS asks the client;
//	            ⏎ is a line break within a message;
//	            or happened METHOD PARAMS for news
//	            outside of calls; or offer ITEM for one more item
//	N/sees      what the server must have been asked, byte for byte
//	N/gets      what the client must have got, byte for byte
//
// Session ids and request states, which the gateway makes, are {session} and
// {state} in what is sent and got; ids of events are {event}.
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
			var got *txtar.Archive
			synctest.Test(t, func(t *testing.T) { got = converse(t, archive) })
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(got.Files) != len(archive.Files) {
				t.Errorf("the conversation gives %d files, the archive has %d; run with -update", len(got.Files), len(archive.Files))
			}
			for i, f := range archive.Files {
				if i < len(got.Files) && (got.Files[i].Name != f.Name || !bytes.Equal(got.Files[i].Data, f.Data)) {
					t.Errorf("%s: got %s\n%s\nwant\n%s", f.Name, got.Files[i].Name, got.Files[i].Data, f.Data)
				}
			}
		})
	}
}

// conversation is one archive while it runs.
type conversation struct {
	*rig
	backend *script
	items   []string
	era     mcp.Era
	caps    string
	stdio   *wire // nil over HTTP
	session string
	state   string // the last requestState
	streams []*recorder
	shown   map[int]bool // streams whose head was rendered

	mu      sync.Mutex
	todo    []string // what the server does in this step
	told    []string // what it was asked in this step
	waiting chan struct{}
}

func converse(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	t.Helper()
	out := &txtar.Archive{Comment: archive.Comment}
	if len(archive.Files) == 0 || archive.Files[0].Name != "server" {
		t.Fatal(`the first file must be "server"`)
	}
	c := &conversation{backend: &script{name: "files"}, shown: map[int]bool{}}
	lines := strings.Split(strings.TrimSpace(string(archive.Files[0].Data)), "\n")
	if len(lines) < 2 {
		t.Fatal("server needs an era and capabilities")
	}
	c.era, c.caps, c.items = mcp.Legacy, lines[1], lines[2:]
	if lines[0] == "modern" {
		c.era = mcp.Modern
	}
	c.backend.offer(t, c.era, c.caps, c.items...)
	c.backend.reply = c.reply
	c.rig = newRig(t, mounted(c.backend)).run()
	transport, _, _ := strings.Cut(string(archive.Comment), "\n")
	if transport == "stdio" {
		c.stdio = c.rig.stdio(person("alice"))
	}
	out.Files = append(out.Files, archive.Files[0])

	files := map[string][]byte{}
	var steps []string
	for _, f := range archive.Files[1:] {
		step, _, _ := strings.Cut(f.Name, "/")
		if len(steps) == 0 || steps[len(steps)-1] != step {
			steps = append(steps, step)
		}
		files[f.Name] = f.Data
	}
	for _, step := range steps {
		client, upstream := files[step+"/client"], files[step+"/upstream"]
		sees, gets := c.step(t, string(client), string(upstream))
		for _, f := range []txtar.File{
			{Name: step + "/client", Data: client},
			{Name: step + "/upstream", Data: upstream},
			{Name: step + "/sees", Data: []byte(sees)},
			{Name: step + "/gets", Data: []byte(gets)},
		} {
			if len(f.Data) > 0 {
				out.Files = append(out.Files, f)
			}
		}
	}
	return out
}

var (
	secrets = regexp.MustCompile(`[0-9a-f]{48}`)
	events  = regexp.MustCompile(`(?m)^id: (\S+)$`)
	states  = regexp.MustCompile(`"requestState":"(k1\.[^"]*)"`)
)

// step runs one step and returns what the server and the client have seen.
func (c *conversation) step(t *testing.T, client, upstream string) (sees, gets string) {
	t.Helper()
	c.mu.Lock()
	c.told = nil
	for line := range strings.Lines(upstream) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "⏎", "\n")
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "happened":
			method, params, _ := strings.Cut(rest, " ")
			c.Happened(mcp.Event{Server: "files", Principal: person("alice").Key(), Method: method, Params: []byte(params)})
		case "offer":
			c.items = append(c.items, rest)
			c.backend.offer(t, c.era, c.caps, c.items...)
			c.Changed("files")
		default:
			c.todo = append(c.todo, line)
		}
	}
	if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
	c.mu.Unlock()
	client = strings.NewReplacer("{session}", c.session, "{state}", c.state).Replace(client)
	switch {
	case client == "":
	case c.stdio != nil:
		c.stdio.send(strings.TrimSuffix(client, "\n"))
	default:
		c.send(t, client)
	}
	synctest.Wait()
	var got strings.Builder
	if c.stdio != nil {
		got.WriteString(c.stdio.out.drain())
	}
	for i, w := range c.streams {
		c.render(&got, i+1, w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.told {
		sees += line + "\n"
	}
	text := got.String()
	if id := secrets.FindString(text); id != "" {
		c.session = id
		text = secrets.ReplaceAllString(text, "{session}")
	}
	text = events.ReplaceAllString(text, "id: {event}")
	if m := states.FindStringSubmatch(text); m != nil {
		c.state = m[1]
		text = strings.ReplaceAll(text, m[1], "{state}")
	}
	return sees, text
}

// send makes a request of its text, with the length of its body.
func (c *conversation) send(t *testing.T, text string) {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	raw := strings.ReplaceAll(strings.TrimSpace(head), "\n", "\r\n") + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	req.RemoteAddr = "127.0.0.1:40000"
	w, _ := c.begin(req)
	c.streams = append(c.streams, w)
}

// shownHeaders are the headers of an answer that are part of the contract.
var shownHeaders = []string{"Content-Type", "Allow", "Cache-Control", "Mcp-Session-Id", "Www-Authenticate", "X-Accel-Buffering"}

// render writes what a stream has said since the last step.
func (c *conversation) render(out *strings.Builder, number int, w *recorder) {
	text := w.next()
	switch {
	case !c.shown[number] && w.code() != 0:
		c.shown[number] = true
		fmt.Fprintf(out, "#%d %d\n", number, w.code())
		for _, name := range shownHeaders {
			if v := w.field(name); v != "" {
				fmt.Fprintf(out, "%s: %s\n", name, v)
			}
		}
		out.WriteString("\n")
	case text == "":
		return
	default:
		fmt.Fprintf(out, "#%d\n", number)
	}
	out.WriteString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		out.WriteString("\n")
	}
}

// reply does what the step says. When there is nothing left to do, it waits
// for a later step, or for the call to be given up.
func (c *conversation) reply(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	line := call.Method + " " + string(call.Params)
	if call.Capabilities != nil {
		line += " " + string(call.Capabilities)
	}
	c.tell(line)
	for {
		c.mu.Lock()
		if len(c.todo) == 0 {
			if c.waiting == nil {
				c.waiting = make(chan struct{})
			}
			wait := c.waiting
			c.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				c.tell("withdrawn " + call.Method)
				return mcp.Answer{}, context.Cause(ctx)
			}
		}
		verb, rest, _ := strings.Cut(c.todo[0], " ")
		c.todo = c.todo[1:]
		c.mu.Unlock()
		switch verb {
		case "result":
			return answered(c.era, rest), nil
		case "error":
			return fault(c.era, rest), nil
		case "notify":
			if method, params, _ := strings.Cut(rest, " "); call.Notify != nil {
				call.Notify(method, []byte(params))
			}
		case "ask":
			method, params, _ := strings.Cut(rest, " ")
			answer, refused := call.AskAndWait(ctx, method, []byte(params))
			if refused != nil {
				answer = refused.Append([]byte("error "))
			}
			c.tell("answered " + string(answer))
		}
	}
}

func (c *conversation) tell(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, line)
}
