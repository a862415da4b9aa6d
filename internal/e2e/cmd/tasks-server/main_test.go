package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client speaks one of the eras to a server.
type client struct {
	t     *testing.T
	peer  peer
	caps  object
	heard *heard
}

// heard keeps the messages that came beside answers.
type heard struct {
	mu       sync.Mutex
	messages []object
}

func (h *heard) add(m object) { h.mu.Lock(); h.messages = append(h.messages, m); h.mu.Unlock() }

// count tells how many messages match.
func (h *heard) count(match func(object) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, m := range h.messages {
		if match(m) {
			n++
		}
	}
	return n
}

// states gives the states that were told of a task, in their order.
func (h *heard) states(method, id string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, m := range h.messages {
		if params := m["params"].(object); m["method"] == method && params["taskId"] == id {
			all = append(all, params["status"].(string))
		}
	}
	return all
}

var (
	withTasks = object{"extensions": object{tasksExtension: object{}}}
	withForms = object{"elicitation": object{}}
	withBoth  = object{"extensions": object{tasksExtension: object{}}, "elicitation": object{"form": object{}}}
)

// modernClient is one that sends caps with every request.
func modernClient(t *testing.T, p peer, caps object) *client {
	c := &client{t: t, peer: p, caps: caps, heard: &heard{}}
	p.onMessage(c.heard.add)
	return c
}

// legacyClient is one with a session. It answers every question at once, with
// its text if the question is one of a text.
func legacyClient(t *testing.T, p peer, caps object, text string) *client {
	c := &client{t: t, peer: p, heard: &heard{}}
	p.onMessage(func(m object) {
		c.heard.add(m)
		if m["method"] == "elicitation/create" && text != "" {
			field := m["params"].(object)["requestedSchema"].(object)["required"].([]any)[0].(string)
			content := object{field: text}
			if field == "confirm" {
				content[field] = true
			}
			go p.tell(object{"id": m["id"], "result": object{"action": "accept", "content": content}})
		}
	})
	result := c.ok("initialize", object{"protocolVersion": legacyVersion, "capabilities": caps, "clientInfo": object{"name": "test", "version": "1"}})
	if result["protocolVersion"] != legacyVersion {
		t.Errorf("protocolVersion = %v", result["protocolVersion"])
	}
	p.tell(notification("notifications/initialized", object{}))
	return c
}

func (c *client) call(ctx context.Context, method string, params object) (object, *rpcError) {
	if c.caps != nil {
		params["_meta"] = object{keyVersion: modernVersion, keyCapabilities: c.caps}
	}
	return c.peer.call(ctx, method, params)
}

func (c *client) ok(method string, params object) object {
	c.t.Helper()
	result, err := c.call(context.Background(), method, params)
	if err != nil {
		c.t.Fatalf("%s: %d %v", method, err.Code, err)
	}
	return result
}

func (c *client) fails(code int, method string, params object) rpcError {
	c.t.Helper()
	result, err := c.call(context.Background(), method, params)
	if err == nil || err.Code != code {
		c.t.Fatalf("%s: %v, error %+v, want the error %d", method, result, err, code)
	}
	return *err
}

// start calls a tool of which a modern client expects a task.
func (c *client) start(tool string, args object, more ...object) string {
	c.t.Helper()
	params := object{"name": tool, "arguments": args}
	for _, m := range more {
		maps.Copy(params, m)
	}
	result := c.ok("tools/call", params)
	id, _ := result["taskId"].(string)
	if result["resultType"] != "task" || id == "" || result["status"] != "working" {
		c.t.Fatalf("%s: %v, want a working task", tool, result)
	}
	for _, key := range []string{"requestState", "inputRequests", "result", "error", "task", "ttl"} {
		if _, ok := result[key]; ok {
			c.t.Errorf("CreateTaskResult has %s", key)
		}
	}
	return id
}

// get waits until the server is at rest and gives the state of a task.
func (c *client) get(id string) object {
	c.t.Helper()
	synctest.Wait()
	return c.ok("tasks/get", object{"taskId": id})
}

func text(result any) string {
	o, ok := result.(object)
	if !ok {
		return fmt.Sprint(result)
	}
	content, _ := o["content"].([]any)
	if len(content) != 1 {
		return fmt.Sprint(result)
	}
	return content[0].(object)["text"].(string)
}

func answers(kv ...string) object {
	all := object{}
	for i := 0; i < len(kv); i += 3 {
		all[kv[i]] = object{"action": "accept", "content": object{kv[i+1]: kv[i+2]}}
	}
	return all
}

func TestModernEnds(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		c := modernClient(t, connect(), withBoth)
		if r := c.ok("tools/call", object{"name": "greet", "arguments": object{"name": "Ann"}, "task": object{"ttl": 1}}); text(r) != "Hello, Ann!" || r["resultType"] != "complete" {
			t.Errorf("greet: %v", r)
		}
		slow := c.start("slow_compute", object{"seconds": 30, "label": "x"})
		if got := c.get(slow); got["status"] != "working" || fmt.Sprint(got["ttlMs"]) != "60000" || fmt.Sprint(got["pollIntervalMs"]) != "1000" {
			t.Errorf("while it works: %v", got)
		}
		tool, protocol := c.start("failing_job", object{}), c.start("protocol_error_job", object{})
		<-time.After(30 * time.Second)
		if got := c.get(slow); got["status"] != "completed" || text(got["result"]) != `computed "x" in 30 s` {
			t.Errorf("slow_compute: %v", got)
		}
		if got := c.get(tool); got["status"] != "completed" || got["result"].(object)["isError"] != true {
			t.Errorf("failing_job: %v", got)
		}
		if got := c.get(protocol); got["status"] != "failed" || got["error"].(object)["message"] != "the job broke" || got["result"] != nil {
			t.Errorf("protocol_error_job: %v", got)
		}
		<-time.After(30 * time.Second)
		for _, id := range []string{slow, tool, "never-was"} {
			c.fails(codeInvalidParams, "tasks/get", object{"taskId": id})
			c.fails(codeInvalidParams, "tasks/cancel", object{"taskId": id})
			c.fails(codeInvalidParams, "tasks/update", object{"taskId": id, "inputResponses": object{}})
		}
	})
}

func TestModernCancel(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		c := modernClient(t, connect(), withBoth)
		id := c.start("slow_compute", object{"seconds": 30})
		for range 2 { // the second time it is over already
			ack := c.ok("tasks/cancel", object{"taskId": id})
			delete(ack, "_meta")
			if !reflect.DeepEqual(ack, object{"resultType": "complete"}) {
				t.Errorf("ack: %v", ack)
			}
			if got := c.get(id); got["status"] != "cancelled" {
				t.Errorf("after the cancel: %v", got)
			}
		}
	})
}

func TestModernInput(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		c := modernClient(t, connect(), withBoth)
		id := c.start("multi_input", object{})
		open := func() []string {
			var keys []string
			requests, _ := c.get(id)["inputRequests"].(object)
			for key := range requests {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			return keys
		}
		if got := open(); !slices.Equal(got, []string{"first_name", "last_name"}) {
			t.Fatalf("open: %v", got)
		}
		c.ok("tasks/update", object{"taskId": id, "inputResponses": answers("nobody", "name", "asked", "last_name", "name", "Lee")})
		if got := open(); !slices.Equal(got, []string{"first_name"}) {
			t.Fatalf("open after one answer: %v", got)
		}
		c.fails(codeInvalidParams, "tasks/update", object{"taskId": id, "inputResponses": object{"first_name": 7}})
		c.ok("tasks/update", object{"taskId": id, "inputResponses": answers("last_name", "name", "twice", "first_name", "name", "Ann")})
		if got := c.get(id); got["status"] != "completed" || text(got["result"]) != "Hello, Ann Lee!" {
			t.Errorf("at the end: %v", got)
		}

		id = c.start("interview", object{}) // two rounds, each with its own key
		open()
		c.ok("tasks/update", object{"taskId": id, "inputResponses": answers("name", "name", "Bo", "city", "city", "too early")})
		if got := open(); !slices.Equal(got, []string{"city"}) {
			t.Fatalf("open in the second round: %v", got)
		}
		c.ok("tasks/update", object{"taskId": id, "inputResponses": answers("city", "city", "Oslo")})
		if got := c.get(id); text(got["result"]) != "Bo lives in Oslo" {
			t.Errorf("at the end: %v", got)
		}
	})
}

func TestModernRoundTrips(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		p := connect()
		c := modernClient(t, p, withBoth)
		call := object{"name": "test_tool_with_task", "arguments": object{}}
		first := c.ok("tools/call", call)
		if first["resultType"] != "input_required" || first["taskId"] != nil {
			t.Fatalf("the first round: %v", first)
		}
		id := c.start("test_tool_with_task", object{}, object{"requestState": first["requestState"], "inputResponses": answers("user_name", "name", "Alice")})
		<-time.After(jobTime)
		if got := c.get(id); text(got["result"]) != "Hello, Alice!" {
			t.Errorf("at the end: %v", got)
		}

		// Without tasks the whole call goes by round trips.
		c = modernClient(t, p, withForms)
		one := c.ok("tools/call", object{"name": "interview"})
		two := c.ok("tools/call", object{"name": "interview", "requestState": one["requestState"], "inputResponses": answers("name", "name", "Bo", "city", "city", "too early")})
		if requests, _ := two["inputRequests"].(object); requests["city"] == nil || len(requests) != 1 {
			t.Fatalf("the second round: %v", two)
		}
		end := c.ok("tools/call", object{"name": "interview", "requestState": two["requestState"], "inputResponses": answers("name", "name", "other", "city", "city", "Oslo")})
		if text(end) != "Bo lives in Oslo" || end["resultType"] != "complete" {
			t.Errorf("at the end: %v", end)
		}

		state := two["requestState"].(string)
		for what, params := range map[string]object{
			"changed":         {"name": "interview", "requestState": "A" + state},
			"cut":             {"name": "interview", "requestState": state[:len(state)-1]},
			"for another":     {"name": "multi_input", "requestState": state},
			"with other args": {"name": "interview", "arguments": object{"name": "x"}, "requestState": state},
		} {
			if _, err := c.call(context.Background(), "tools/call", params); err == nil || err.Code != codeInvalidParams {
				t.Errorf("a requestState %s: %v", what, err)
			}
		}
		<-time.After(maxCall + time.Second)
		c.fails(codeInvalidParams, "tools/call", object{"name": "interview", "requestState": state})
	})
}

func TestModernCapabilities(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		p := connect()
		none, tasks := modernClient(t, p, object{}), modernClient(t, p, withTasks)
		caps := none.ok("server/discover", object{})["capabilities"].(object)
		if caps["tasks"] != nil || caps["extensions"].(object)[tasksExtension] == nil {
			t.Errorf("capabilities: %v", caps)
		}
		id := tasks.start("slow_compute", object{"seconds": 5})
		ext, forms := object{tasksExtension: object{}}, object{}
		for _, c := range []struct {
			who    *client
			method string
			params object
			needs  object
		}{
			{none, "tasks/get", object{"taskId": id}, object{"extensions": ext}},
			{none, "tasks/update", object{"taskId": id, "inputResponses": object{}}, object{"extensions": ext}},
			{none, "tasks/cancel", object{"taskId": id}, object{"extensions": ext}},
			{none, "subscriptions/listen", object{"notifications": object{"taskIds": []string{id}}}, object{"extensions": ext}},
			{none, "tools/call", object{"name": "failing_job"}, object{"extensions": ext}},
			{none, "tools/call", object{"name": "test_tool_with_task"}, object{"extensions": ext, "elicitation": forms}},
			{tasks, "tools/call", object{"name": "confirm_delete"}, object{"elicitation": forms}},
		} {
			err := c.who.fails(codeMissingCapability, c.method, c.params)
			if want := (object{"requiredCapabilities": c.needs}); !reflect.DeepEqual(err.Data, want) {
				t.Errorf("%s %v: data %v, want %v", c.method, c.params, err.Data, want)
			}
		}
		if r := none.ok("tools/call", object{"name": "slow_compute", "arguments": object{"seconds": 2}}); r["resultType"] != "complete" || r["taskId"] != nil {
			t.Errorf("without the extension: %v", r)
		}
		for _, gone := range []string{"tasks/result", "tasks/list", "initialize", "ping"} {
			tasks.fails(codeMethodNotFound, gone, object{"taskId": id})
		}
		_, err := p.call(t.Context(), "tools/list", object{"_meta": object{keyVersion: "2030-01-01", keyCapabilities: object{}}})
		if err == nil || err.Code != codeUnsupportedVersion {
			t.Errorf("another version: %v", err)
		}
		_, err = p.call(t.Context(), "tools/list", object{"_meta": object{keyVersion: modernVersion}})
		if err == nil || err.Code != codeInvalidParams {
			t.Errorf("no capabilities: %v", err)
		}
	})
}

func TestModernListen(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		c := modernClient(t, connect(), withBoth)
		mine, other := c.start("multi_input", object{}), c.start("slow_compute", object{"seconds": 1})
		done := c.start("slow_compute", object{"seconds": 0})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			if r, err := c.call(ctx, "subscriptions/listen", object{"notifications": object{"taskIds": []string{mine, "never-was", done, mine}}}); err == nil {
				t.Errorf("the listen ended with %v", r)
			}
		})
		synctest.Wait()
		c.ok("tasks/update", object{"taskId": mine, "inputResponses": answers("last_name", "name", "Lee")})
		synctest.Wait()
		c.ok("tasks/update", object{"taskId": mine, "inputResponses": answers("first_name", "name", "Ann")})
		<-time.After(2 * keepAlive)
		sp, isStdio := c.peer.(*stdioPeer)
		before := 0
		if isStdio {
			before = sp.answers
		}
		cancel()
		ended.Wait()
		synctest.Wait()
		if isStdio && sp.answers != before {
			t.Error("a cancelled request was answered")
		}

		c.heard.mu.Lock()
		ack := c.heard.messages[0]
		subscription := ack["params"].(object)["_meta"].(object)[keySubscription]
		for _, m := range c.heard.messages {
			if got := m["params"].(object)["_meta"].(object)[keySubscription]; got == nil || got != subscription {
				t.Errorf("a message of the subscription %v says %v", subscription, got)
			}
		}
		last := c.heard.messages[len(c.heard.messages)-1]["params"].(object)
		c.heard.mu.Unlock()
		if ack["method"] != "notifications/subscriptions/acknowledged" ||
			!reflect.DeepEqual(ack["params"].(object)["notifications"], object{"taskIds": []any{mine, done}}) {
			t.Errorf("the first message: %v", ack)
		}
		states := slices.Compact(c.heard.states("notifications/tasks", mine))
		if want := []string{"input_required", "completed"}; !slices.Equal(slices.DeleteFunc(states, func(s string) bool { return s == "working" }), want) {
			t.Errorf("states: %v, want %v", states, want)
		}
		if got := c.heard.states("notifications/tasks", done); !slices.Equal(got, []string{"completed"}) {
			t.Errorf("a task that had ended before: %v", got)
		}
		if got := c.heard.states("notifications/tasks", other); got != nil {
			t.Errorf("a task that was not asked for: %v", got)
		}
		delete(last, "_meta")
		want := c.get(mine)
		delete(want, "_meta")
		delete(want, "resultType")
		if !reflect.DeepEqual(last, want) {
			t.Errorf("the last notification\n%v\nis not what tasks/get says\n%v", last, want)
		}
	})
}

// A server that ends says so to those who listen.
func TestModernListenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer()
		ctx, cancel := context.WithCancel(t.Context())
		out := &recorder{}
		m := &message{ID: []byte("7"), Method: "subscriptions/listen"}
		m.params.Meta.Capabilities = &clientCapabilities{}
		time.AfterFunc(time.Second, cancel)
		result, err := s.listen(ctx, m, out)
		if err != nil || result["resultType"] != "complete" || fmt.Sprintf("%s", result["_meta"].(object)[keySubscription]) != "7" {
			t.Errorf("the end: %v, %v", result, err)
		}
		s.tasks.close()
	})
}

type recorder struct{ messages []object }

func (r *recorder) send(m object) error { r.messages = append(r.messages, m); return nil }
func (r *recorder) alive() error        { return nil }

func TestLegacyEnds(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		c := legacyClient(t, connect(), withForms, "Ann")
		for _, tl := range c.ok("tools/list", object{})["tools"].([]any) {
			tl := tl.(object)
			found, _ := findTool(tl["name"].(string))
			if got := tl["execution"].(object)["taskSupport"]; got != found.support {
				t.Errorf("%s: taskSupport %v, want %s", found.name, got, found.support)
			}
		}
		c.fails(codeMethodNotFound, "tools/call", object{"name": "greet", "task": object{}})
		c.fails(codeMethodNotFound, "tools/call", object{"name": "failing_job"})
		c.fails(codeMethodNotFound, "tasks/update", object{"taskId": "x"})
		c.fails(codeMethodNotFound, "server/discover", object{})
		c.fails(codeInvalidParams, "tools/call", object{"name": "slow_compute", "task": object{"ttl": 0}})
		c.fails(codeInvalidParams, "tools/call", object{"name": "nothing"})
		if r := c.ok("tools/call", object{"name": "slow_compute", "arguments": object{"seconds": 3}}); text(r) != `computed "" in 3 s` {
			t.Errorf("not as a task: %v", r)
		}
		ids := map[string]string{}
		for _, name := range []string{"slow_compute", "failing_job", "protocol_error_job"} {
			created := c.ok("tools/call", object{"name": name, "arguments": object{"seconds": 3}, "task": object{"ttl": 20000}})
			tk, _ := created["task"].(object)
			ids[name], _ = tk["taskId"].(string)
			if tk["status"] != "working" || fmt.Sprint(tk["ttl"]) != "20000" || fmt.Sprint(tk["pollInterval"]) != "1000" {
				t.Errorf("%s: %v", name, created)
			}
		}
		// tasks/result waits for the end.
		r := c.ok("tasks/result", object{"taskId": ids["slow_compute"]})
		if text(r) != `computed "" in 3 s` || r["_meta"].(object)[keyRelatedTask].(object)["taskId"] != ids["slow_compute"] {
			t.Errorf("tasks/result: %v", r)
		}
		if got := c.get(ids["failing_job"]); got["status"] != "failed" || got["statusMessage"] != "the job failed" {
			t.Errorf("failing_job: %v", got)
		}
		if r := c.ok("tasks/result", object{"taskId": ids["failing_job"]}); r["isError"] != true {
			t.Errorf("the result of failing_job: %v", r)
		}
		if err := c.fails(codeInternal, "tasks/result", object{"taskId": ids["protocol_error_job"]}); err.Message != "the job broke" {
			t.Errorf("the result of protocol_error_job: %s", err.Message)
		}
		c.fails(codeInvalidParams, "tasks/cancel", object{"taskId": ids["slow_compute"]})
		<-time.After(20 * time.Second)
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			c.fails(codeInvalidParams, method, object{"taskId": ids["slow_compute"]})
			c.fails(codeInvalidParams, method, object{"taskId": "never-was"})
		}
		if got := c.ok("tasks/list", object{})["tasks"]; !reflect.DeepEqual(got, []any{}) {
			t.Errorf("the list at the end: %v", got)
		}
	})
}

func TestLegacyQuestions(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		c := legacyClient(t, connect(), withForms, "Ann")
		if r := c.ok("tools/call", object{"name": "interview"}); text(r) != "Ann lives in Ann" {
			t.Errorf("not as a task: %v", r)
		}
		for tool, want := range map[string]string{
			"interview": "Ann lives in Ann", "multi_input": "Hello, Ann Ann!", "confirm_delete": "deleted x", "test_tool_with_task": "Hello, Ann!",
		} {
			tk := c.ok("tools/call", object{"name": tool, "arguments": object{"filename": "x"}, "task": object{}})["task"].(object)
			id := tk["taskId"].(string)
			if got := c.get(id); got["status"] != "input_required" {
				t.Errorf("%s before the answer: %v", tool, got)
			}
			if r := c.ok("tasks/result", object{"taskId": id}); text(r) != want {
				t.Errorf("%s: %v, want %s", tool, r, want)
			}
			asked := c.heard.count(func(m object) bool {
				meta, _ := m["params"].(object)["_meta"].(object)
				return m["method"] == "elicitation/create" && reflect.DeepEqual(meta[keyRelatedTask], object{"taskId": id})
			})
			found, _ := findTool(tool)
			if want := len(slices.Concat(found.rounds(arguments{})...)); asked != want {
				t.Errorf("%s: %d questions named the task, want %d", tool, asked, want)
			}
		}
	})
}

// A question whose stream has gone is asked again on the next one, and ends
// with its task.
func TestLegacyQuestionAgain(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		p := connect()
		c := legacyClient(t, p, withForms, "")
		id := c.ok("tools/call", object{"name": "confirm_delete", "task": object{}})["task"].(object)["taskId"].(string)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if r, err := c.call(ctx, "tasks/result", object{"taskId": id}); err == nil {
				t.Errorf("tasks/result: %v", r)
			}
			cancel()
			synctest.Wait()
		}
		time.AfterFunc(time.Second, func() { c.ok("tasks/cancel", object{"taskId": id}) })
		c.fails(codeTaskCancelled, "tasks/result", object{"taskId": id})
		asked := c.heard.count(func(m object) bool { return m["method"] == "elicitation/create" })
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
		if got := c.get(id); got["status"] != "cancelled" {
			t.Errorf("at the end: %v", got)
		}

		deaf := object{"name": "confirm_delete", "task": object{}}
		if hp, ok := p.(*httpPeer); ok { // another session, whose client declares nothing
			c = legacyClient(t, &httpPeer{t: t, client: hp.client}, object{}, "")
			c.fails(codeInvalidRequest, "tools/call", deaf)
			c.fails(codeInvalidParams, "tasks/get", object{"taskId": id})
			c.fails(codeInvalidParams, "tasks/result", object{"taskId": id})
		}
	})
}

func TestLegacyListAndStates(t *testing.T) {
	eachTransport(t, testServer, func(t *testing.T, connect func() peer) {
		p := connect()
		c := legacyClient(t, p, withForms, "Ann")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		listenGET(ctx, t, p)
		var want []string
		for range pageSize + 3 {
			tk := c.ok("tools/call", object{"name": "slow_compute", "arguments": object{"seconds": 5}, "task": object{}})["task"].(object)
			want = append(want, tk["taskId"].(string))
			<-time.After(time.Millisecond)
		}
		var got []string
		params := object{}
		for {
			page := c.ok("tasks/list", params)
			for _, tk := range page["tasks"].([]any) {
				got = append(got, tk.(object)["taskId"].(string))
			}
			if page["nextCursor"] == nil {
				break
			}
			params = object{"cursor": page["nextCursor"]}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the pages have\n%v\nwant\n%v", got, want)
		}
		c.fails(codeInvalidParams, "tasks/list", object{"cursor": "none"})
		<-time.After(6 * time.Second)
		synctest.Wait()
		for _, id := range want {
			states := c.heard.states("notifications/tasks/status", id)
			if !slices.Equal(states, []string{"working", "completed"}) {
				t.Errorf("states: %v", states)
			}
		}
	})
}

// The tasks of one client are nobody else's, and end with its session.
func TestHTTPSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer()
		hc := pipeHTTP(t, s)
		one, other := &httpPeer{t: t, client: hc}, &httpPeer{t: t, client: hc}
		a, b := legacyClient(t, one, object{}, ""), legacyClient(t, other, object{}, "")
		modern := modernClient(t, &httpPeer{t: t, client: hc}, withTasks)
		id := a.ok("tools/call", object{"name": "slow_compute", "arguments": object{"seconds": 50}, "task": object{}})["task"].(object)["taskId"].(string)
		for _, c := range []*client{b, modern} {
			c.fails(codeInvalidParams, "tasks/get", object{"taskId": id})
			c.fails(codeInvalidParams, "tasks/cancel", object{"taskId": id})
		}
		b.fails(codeInvalidParams, "tasks/result", object{"taskId": id})
		if got := b.ok("tasks/list", object{})["tasks"].([]any); len(got) != 0 {
			t.Errorf("the list of another session: %v", got)
		}
		waiting := make(chan *rpcError)
		go func() {
			_, err := a.call(context.Background(), "tasks/result", object{"taskId": id})
			waiting <- err
		}()
		synctest.Wait()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://localhost/mcp", nil)
		r.Header.Set("Mcp-Session-Id", one.session)
		res, err := hc.Do(r)
		if err != nil || res.StatusCode != http.StatusNoContent {
			t.Fatalf("DELETE: %v, %v", res, err)
		}
		if err := <-waiting; err == nil {
			t.Error("tasks/result of a session that has ended has a result")
		}
		if n := len(s.tasks.tasks); n != 0 {
			t.Errorf("%d tasks are kept", n)
		}
		if _, err := a.call(t.Context(), "ping", object{}); err == nil {
			t.Error("a session that has ended answers")
		}
	})
}

func TestHTTPRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &httpPeer{t: t, client: pipeHTTP(t, testServer())}
		meta := func() object { return object{keyVersion: modernVersion, keyCapabilities: withTasks} }
		list := func() object { return object{"id": 1, "method": "tools/list", "params": object{"_meta": meta()}} }
		call := func() object {
			return object{"id": 1, "method": "tools/call", "params": object{"name": "greet", "_meta": meta()}}
		}
		get := func() object {
			return object{"id": 1, "method": "tasks/get", "params": object{"taskId": "x", "_meta": meta()}}
		}
		old := func() object { return object{"id": 1, "method": "tools/list", "params": object{}} }
		set := func(key, value string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set(key, value) }
		}
		without := func(key string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(key) } }
		for _, c := range []struct {
			what   string
			body   object
			change func(*http.Request)
			status int
			code   int // 0: no error
		}{
			{"a good request", list(), nil, 200, 0},
			{"another method", list(), set("Mcp-Method", "tools/call"), 400, codeHeaderMismatch},
			{"another case", list(), set("Mcp-Method", "Tools/List"), 400, codeHeaderMismatch},
			{"no method", list(), without("Mcp-Method"), 400, codeHeaderMismatch},
			{"no version", list(), without("Mcp-Protocol-Version"), 400, codeHeaderMismatch},
			{"another version", list(), set("Mcp-Protocol-Version", legacyVersion), 400, codeHeaderMismatch},
			{"no name", call(), without("Mcp-Name"), 400, codeHeaderMismatch},
			{"the name in base64", call(), set("Mcp-Name", "=?base64?Z3JlZXQ=?="), 200, 0},
			{"bad base64", call(), set("Mcp-Name", "=?base64?Z3JlZXQ?="), 400, codeHeaderMismatch},
			{"two names", call(), func(r *http.Request) { r.Header.Add("Mcp-Name", "greet") }, 400, codeHeaderMismatch},
			{"an unknown task", get(), nil, 200, codeInvalidParams},
			{"another task", get(), set("Mcp-Name", "y"), 400, codeHeaderMismatch},
			{"no task", get(), without("Mcp-Name"), 400, codeHeaderMismatch},
			{"a modern header and no _meta", old(), func(r *http.Request) {
				r.Header.Set("Mcp-Protocol-Version", modernVersion)
				r.Header.Set("Mcp-Method", "tools/list")
			}, 400, codeInvalidParams},
			{"an unknown method", object{"id": 1, "method": "tasks/list", "params": object{"_meta": meta()}}, nil, 404, codeMethodNotFound},
			{"no session", old(), nil, 400, codeInvalidRequest},
			{"a session that is not", old(), set("Mcp-Session-Id", "x"), 404, codeInvalidRequest},
			{"no id that can be", object{"id": nil, "method": "ping"}, nil, 400, codeInvalidRequest},
			{"a web page", list(), set("Origin", "https://example.com"), 403, -1},
			{"a local page", list(), set("Origin", "http://localhost:3000"), 200, 0},
			{"another host", list(), func(r *http.Request) { r.Host = "example.com" }, 403, -1},
			{"a form", list(), set("Content-Type", "text/plain"), 415, -1},
			{"GET without a session", list(), func(r *http.Request) { r.Method = http.MethodGet }, 400, codeInvalidRequest},
			{"PUT", list(), func(r *http.Request) { r.Method = http.MethodPut }, 405, -1},
		} {
			r := p.request(t.Context(), c.body)
			if c.change != nil {
				c.change(r)
			}
			res, err := p.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("%s: status %d, want %d: %s", c.what, res.StatusCode, c.status, body)
			}
			if c.code < 0 && c.code > -10 {
				continue
			}
			if _, err := outcome(t, toObject(t, body)); (err == nil) != (c.code == 0) || err != nil && err.Code != c.code {
				t.Errorf("%s: %v, want the error %d", c.what, err, c.code)
			}
		}
	})
}

func TestEraFlag(t *testing.T) {
	legacy := func() *server { return newServer("legacy", 10, time.Minute, time.Second) }
	eachTransport(t, legacy, func(t *testing.T, connect func() peer) {
		p := connect()
		discover := object{"_meta": object{keyVersion: modernVersion, keyCapabilities: object{}}}
		if r, err := p.call(t.Context(), "server/discover", discover); err == nil || err.Code <= codeHeaderMismatch && err.Code >= codeUnsupportedVersion {
			t.Errorf("a server of the legacy era knows server/discover: %v, %v", r, err)
		}
		legacyClient(t, p, object{}, "").ok("ping", object{})
	})
	modern := func() *server { return newServer("modern", 10, time.Minute, time.Second) }
	eachTransport(t, modern, func(t *testing.T, connect func() peer) {
		p := connect()
		if _, err := p.call(t.Context(), "initialize", object{}); err == nil || !strings.Contains(err.Message, modernVersion) && err.Code != codeHeaderMismatch {
			t.Errorf("initialize: %v", err)
		}
		modernClient(t, p, object{}).ok("tools/list", object{})
	})
}

func TestRun(t *testing.T) {
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"` + keyVersion + `":"` + modernVersion + `","` + keyCapabilities + `":{}}}}`
	var out strings.Builder
	if err := run(t.Context(), nil, strings.NewReader(discover+"\nnot json\n"), &out, io.Discard); err != nil {
		t.Errorf("stdio: %v", err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), "supportedVersions") || !strings.Contains(out.String(), "-32700") {
		t.Errorf("stdio: %s", out.String())
	}

	ctx, cancel := context.WithCancel(t.Context())
	logs, w := io.Pipe()
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"-http", "127.0.0.1:0"}, nil, nil, w) }()
	var url string
	if _, err := fmt.Fscanf(logs, "listening on %s\n", &url); err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(discover))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {modernVersion}, "Mcp-Method": {"server/discover"}}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("HTTP: %v, %v", res, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("HTTP: %v", err)
	}

	for _, args := range [][]string{{"-era", "old"}, {"-ttl", "0"}, {"-ttl", "2h"}, {"-poll", "0"}, {"-tasks", "0"}, {"-none"}, {"-http", "nowhere:x"}} {
		if err := run(t.Context(), args, strings.NewReader(""), io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
