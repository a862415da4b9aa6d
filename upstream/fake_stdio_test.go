package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// scriptVariable names what the part "mcp" of the test binary does.
const scriptVariable = "TOOLGATE_TEST_SCRIPT"

// placesVariable names the folder of the script "scarce" and the tool "stall".
const placesVariable = "TOOLGATE_TEST_PLACES"

// scripted is an MCP server on stdio, in a process of its own.
type scripted struct {
	in *bufio.Reader
	on map[string]func(mcp.Message)
}

func init() {
	reexec["mcp"] = func() {
		c := &scripted{in: bufio.NewReader(os.Stdin), on: make(map[string]func(mcp.Message))}
		script := scripts[os.Getenv(scriptVariable)]
		if script == nil {
			fmt.Fprintln(os.Stderr, "no such script")
			os.Exit(97)
		}
		script(c)
	}
}

// scripts are the servers, by name.
var scripts = map[string]func(*scripted){
	"legacy":  func(c *scripted) { c.legacy(); c.serve() },
	"modern":  func(c *scripted) { c.modern(); c.serve() },
	"hostile": func(c *scripted) { c.legacy(); c.hostile(); c.serve() },
	// mute ignores what it does not know, the probe too.
	"mute": func(c *scripted) {
		c.legacy()
		c.on[mcp.MethodDiscover] = func(mcp.Message) {}
		c.serve()
	},
	// early talks before it is asked, and in the middle of the handshake.
	"early": func(c *scripted) {
		c.say("\xef\xbb\xbf" + `Server starting on stdio...`)
		c.say(`{"level":"info","id":1,"msg":"handling request"}`)
		c.say(`{"level":"info","id":2,"msg":"handling request"}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}`)
		c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.say(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
		c.legacy()
		c.serve()
	},
	// marked writes a byte order mark before everything else.
	"marked": func(c *scripted) { _, _ = os.Stdout.WriteString("\xef\xbb\xbf"); c.legacy(); c.serve() },
	// scarce lives in one of two places, which it leaves only some time after
	// the end of its input; a third one at once finds none.
	"scarce": func(c *scripted) {
		for n := range 2 {
			path := filepath.Join(os.Getenv(placesVariable), fmt.Sprint(n))
			if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				f.Close()
				c.legacy()
				c.serve()
				<-time.After(200 * time.Millisecond)
				os.Remove(path)
				return
			}
		}
		fmt.Fprintln(os.Stderr, "one too many")
		os.Exit(98)
	},
	// asks asks during each call and answers with what it was told and who it is.
	"asks": func(c *scripted) {
		c.legacy()
		c.on[mcp.MethodToolsCall] = func(call mcp.Message) {
			c.say(question(`"q"`, mcp.MethodElicit))
			msg, ok := c.next()
			// What is said of a call before this one is no answer.
			for ok && msg.Method != "" && !bytes.Contains(msg.Params(), []byte(`"requestId":`+string(call.ID))) {
				msg, ok = c.next()
			}
			said := msg.Result()
			if said == nil { // it may not ask this client, or is to wait no longer
				said = []byte("null")
			}
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"said":%s,"pid":%d}}`, call.ID, said, os.Getpid()))
		}
		c.serve()
	},
	// both speaks the era of its first message. A call asks in the legacy one, and
	// its answer tells the process and the calls that it has had.
	"both": func(c *scripted) {
		calls := 0
		count := func(call mcp.Message, said string) {
			calls++
			c.say(jsonAnswer(call.ID, fmt.Sprintf(`{"said":%q,"pid":%d,"calls":%d}`, said, os.Getpid(), calls)))
		}
		c.on[mcp.MethodDiscover] = func(msg mcp.Message) {
			c.modern()
			c.result(mcp.MethodToolsList, toolList("echo", "newer"))
			c.on[mcp.MethodToolsCall] = func(call mcp.Message) { count(call, "modern") }
			c.on[mcp.MethodInitialize] = func(msg mcp.Message) { c.say(jsonFault(msg.ID, mcp.CodeUnsupportedVersion, "it is modern now")) }
			c.on[mcp.MethodDiscover](msg)
		}
		c.on[mcp.MethodInitialize] = func(msg mcp.Message) {
			c.legacy()
			c.result(mcp.MethodToolsList, toolList("echo", "older"))
			c.on[mcp.MethodToolsCall] = func(call mcp.Message) {
				c.say(question(`"q"`, mcp.MethodElicit))
				c.on["answer"] = func(said mcp.Message) {
					action, _ := mcp.LookupString(said.Result(), "action")
					count(call, action)
				}
			}
			c.on[mcp.MethodDiscover] = func(msg mcp.Message) { c.say(jsonFault(msg.ID, mcp.CodeMethodNotFound, "it is legacy now")) }
			c.on[mcp.MethodInitialize](msg)
		}
		c.serve()
	},
	// keeps counts its calls; the tool "ask" asks, and other calls go on meanwhile.
	"keeps": func(c *scripted) {
		c.legacy()
		calls := 0
		answer := func(call mcp.Message) { c.say(jsonAnswer(call.ID, fmt.Sprintf(`{"calls":%d}`, calls))) }
		c.on[mcp.MethodToolsCall] = func(call mcp.Message) {
			calls++
			if name, _ := call.ParamString("name"); name != "ask" {
				answer(call)
				return
			}
			c.on["answer"] = func(mcp.Message) { answer(call) }
			c.say(question(`"q"`, mcp.MethodElicit))
		}
		c.serve()
	},
	// notes writes what it was declared into a file; varies lists by it too.
	"notes":  func(c *scripted) { c.legacy(); c.notes(false); c.serve() },
	"varies": func(c *scripted) { c.legacy(); c.notes(true); c.serve() },
	// deaf never reads.
	"deaf": func(*scripted) { testwait.Hang() },
	// shuts stops to listen some time before it ends, dies does both at once.
	"shuts": func(*scripted) {
		os.Stdin.Close()
		<-time.After(100 * time.Millisecond)
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(4)
	},
	"dies": func(*scripted) {
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(4)
	},
}

// childServer is the configuration of a script.
func childServer(script string, era mcp.Era) Spec {
	return Spec{
		Key: "srv", Transport: Stdio, Command: os.Args[0], Era: era, Local: "me", Questions: everyQuestion,
		Env: []string{childVariable + "=mcp", scriptVariable + "=" + script, raceSetting},
	}
}

func (c *scripted) say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

// next returns the next message; ok is false at the end of the input.
func (c *scripted) next() (mcp.Message, bool) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return mcp.Message{}, false
	}
	msg, err := mcp.Parse(line, mcp.Limits{})
	if err != nil {
		fmt.Fprintf(os.Stderr, "the gateway sent %q: %v\n", line, err)
		os.Exit(99)
	}
	return msg, true
}

// serve handles messages until the input ends.
func (c *scripted) serve() {
	for {
		msg, ok := c.next()
		if !ok {
			return
		}
		method := msg.Method
		if msg.Kind == mcp.KindResponse {
			method = "answer"
		}
		switch do := c.on[method]; {
		case do != nil:
			do(msg)
		case msg.Kind == mcp.KindRequest:
			c.say(jsonFault(msg.ID, mcp.CodeMethodNotFound, "Method not found"))
		}
	}
}

// result answers requests of a method always the same.
func (c *scripted) result(method, result string) {
	c.on[method] = func(msg mcp.Message) { c.say(jsonAnswer(msg.ID, result)) }
}

func (c *scripted) echo(msg mcp.Message) {
	c.say(jsonAnswer(msg.ID, `{"content":[],"params":`+string(msg.Params())+`}`))
}

func (c *scripted) legacy() {
	c.result(mcp.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"child","version":"1"}}`)
	c.result(mcp.MethodToolsList, toolList("echo"))
	c.result(mcp.MethodSubscribe, `{}`)
	c.result(mcp.MethodPing, `{}`)
	c.on[mcp.MethodToolsCall] = c.echo
}

// notes appends what was declared to a file, and lists by it if the server varies.
func (c *scripted) notes(varies bool) {
	began := c.on[mcp.MethodInitialize]
	c.on[mcp.MethodInitialize] = func(msg mcp.Message) {
		declared := msg.Param("capabilities")
		path := filepath.Join(os.Getenv(placesVariable), "started")
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintf(f, "%s\n", declared)
			f.Close()
		}
		switch {
		case !varies:
		case mcp.Lookup(declared, "elicitation") != nil:
			c.result(mcp.MethodToolsList, toolList("echo", "confirm"))
		default:
			c.result(mcp.MethodToolsList, toolList("echo", "fallback"))
		}
		began(msg)
	}
}

func (c *scripted) modern() {
	c.result(mcp.MethodDiscover, discoverResult)
	c.result(mcp.MethodToolsList, toolList("echo"))
	c.on[mcp.MethodToolsCall] = c.echo
	c.on[mcp.MethodListen] = func(msg mcp.Message) {
		meta := `"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(msg.ID) + `}`
		c.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta + `,"notifications":` + string(msg.Param("notifications")) + `}}`)
		if strings.Contains(string(msg.Raw), "resourceSubscriptions") {
			c.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{` + meta + `,"uri":"file:///a"}}`)
		}
	}
}

// odd is a list of tools such as careless servers send.
const odd = `{"tools":[{"name":"echo"},{"inputSchema":{},"name":"no type","x":1e400},{"name":"null schema","inputSchema":null},` +
	`{"name":"big","inputSchema":{"type":"object","maximum":123456789012345678901234567890}},{"name":"half \ud83d","inputSchema":{"type":"object"}},` +
	`{"name":"echo","inputSchema":{"second":true}},{"description":"no name"},7,{"name":""},{"name":5}]}`

// hostile adds tools that misbehave, by name.
func (c *scripted) hostile() {
	c.result(mcp.MethodToolsList, odd)
	var silenced []mcp.ID
	c.on[mcp.NotifyCancelled] = func(mcp.Message) {
		for _, id := range silenced {
			c.say(jsonAnswer(id, `{"too":"late"}`))
		}
		silenced = nil
	}
	c.on[mcp.MethodToolsCall] = func(msg mcp.Message) {
		name, _ := mcp.LookupString(msg.Params(), "name")
		id := string(msg.ID)
		answer := jsonAnswer(msg.ID, `{"tool":"`+name+`"}`)
		switch name {
		case "echo":
			c.echo(msg)
		case "garbage":
			for _, line := range []string{
				"npm warn using --force", "", "   ", "\x00\x01\xff\xfe", "{", "}{", "[1,2", "null", "7", `"text"`,
				"{}", "[]", `[` + answer + `]`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","method":7}`, `{"jsonrpc":"2.0","result":{}}`,
				`{"jsonrpc":"2.0","id":{},"result":{}}`, `{"jsonrpc":"2.0","id":"` + id + `","result":{}}`,
				`{"jsonrpc":"2.0","id":4294967296,"result":{"not":"yours"}}`, strings.Repeat("x", 1<<20),
				`{"level":"info","id":` + id + `,"msg":"handling request"}`, `{"level":"error","id":` + id + `,"error":"no such row"}`,
				`{"jsonrpc":"2.0","id":` + id + `}`, `{"id":` + id + `,"msg":"half a line`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":1}}`,
				`{"jsonrpc":"2.0","method":"notifications/` + strings.Repeat("y", 100000) + `"}`,
			} {
				c.say(line)
			}
			c.say(answer + "\r")
			c.say(answer) // twice
		case "half":
			_, _ = os.Stdout.WriteString(answer[:10])
			<-time.After(50 * time.Millisecond)
			_, _ = os.Stdout.WriteString(answer[10:] + "\n" + answer[:7] + "\n")
		case "huge":
			c.say(jsonAnswer(msg.ID, `{"text":"`+strings.Repeat("h", 20<<20)+`"}`))
		case "over":
			c.say(jsonAnswer(msg.ID, `{"text":"`+strings.Repeat("o", 21<<20)+`"}`))
		case "no JSON":
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"a":}}`)
		case "duplicate keys":
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"a":{"b":1,"b":2}}}`)
		case "surrogate":
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"text":"\ud83d"}}`)
		case "silent":
			silenced = append(silenced, msg.ID)
		case "flood":
			w := bufio.NewWriter(os.Stdout)
			for n := range 20_000 {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", id, n)
				fmt.Fprintln(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":1}}`)
			}
			_ = w.Flush()
			c.say(answer)
		case "ask":
			for n := range 1000 {
				c.say(question(fmt.Sprint(n), mcp.MethodSampling))
			}
			c.say(answer)
		case "crash":
			fmt.Fprintln(os.Stderr, "segmentation fault, sort of")
			os.Exit(3)
		case "exit":
			os.Exit(0)
		case "stall": // and die when a file says so
			if testwait.Within(time.Hour, func() bool {
				_, err := os.Stat(filepath.Join(os.Getenv(placesVariable), "die"))
				return err == nil
			}) {
				os.Exit(3)
			}
		case "close":
			os.Stdout.Close()
			<-time.After(time.Hour)
		}
	}
}
