//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// forgedState goes on with the calls of another principal's clients.
func forgedState(ctx context.Context, s *siege) error {
	for _, down := range []kind{{mcp.V20260728, overStdio}, {mcp.V20260728, overStreamable}} {
		for _, victim := range []*bystander{s.suspended, s.modern} {
			c, cell, err := s.attackerOn(ctx, down, victim.cell.to.kind)
			if err != nil {
				return err
			}
			again, err := victim.retry(victim.params, victim.state)
			if err == nil {
				got, err2 := c.once(ctx, c.meta(mcp.RemoveMember(again, "_meta"), ""))
				err = refusedAs("the state", mcp.CodeInvalidParams, got, err2)
			}
			c.close()
			if err := errors.Join(err, cell.broken()); err != nil {
				return fmt.Errorf("%s: %w", down, err)
			}
		}
	}
	return nil
}

// exchangeRaw makes one HTTP request as the attacker and returns the status and
// the code of the error in the answer.
func (s *siege) exchangeRaw(ctx context.Context, method, url string, body []byte, headers ...string) (status int, code string, err error) {
	l := &httpLink{key: s.attacker.key}
	r, err := l.request(ctx, method, url, body, append([]string{"Accept", "application/json, text/event-stream"}, headers...)...)
	if err != nil {
		return 0, "", err
	}
	resp, err := s.rig.http.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode, "", nil // what is in it is another's
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(mcp.Lookup(raw, "error", "code")), err
}

// forgedSession uses the session of another principal's clients: to answer
// their questions, to cancel, to listen, to end it.
func forgedSession(ctx context.Context, s *siege) error {
	l, ok := s.http.link.(*streamLink)
	sse, ok2 := s.sse.link.(*sseLink)
	if !ok || !ok2 {
		return errors.New("the bystanders have no sessions")
	}
	l.mu.Lock()
	session := []string{"Mcp-Session-Id", l.session, "MCP-Protocol-Version", string(s.http.kind.rev)}
	l.mu.Unlock()
	lie := func(b *bystander) []byte {
		return mcp.AppendResult(nil, b.asked.ID, []byte(`{"action":"accept","content":{"word":"forged"}}`))
	}
	cancel := func(b *bystander) []byte {
		return mcp.AppendNotification(nil, mcp.NotifyCancelled, append(append([]byte(`{"requestId":`), b.req.id...), '}'))
	}
	for _, try := range []struct {
		what, method, url string
		body              []byte
		headers           []string
	}{
		{"its answer", http.MethodPost, l.url(), lie(s.http), session},
		{"its cancellation", http.MethodPost, l.url(), cancel(s.http), session},
		{"a request", http.MethodPost, l.url(), mcp.AppendRequest(nil, mcp.NumberID(1), mcp.MethodPing, nil), session},
		{"its stream", http.MethodGet, l.url(), nil, session},
		{"its end", http.MethodDelete, l.url(), nil, session},
		{"the answer of HTTP+SSE", http.MethodPost, sse.endpoint, lie(s.sse), nil},
		{"the cancellation of HTTP+SSE", http.MethodPost, sse.endpoint, cancel(s.sse), nil},
	} {
		status, code, err := s.exchangeRaw(ctx, try.method, try.url, try.body, try.headers...)
		if err != nil || status != http.StatusNotFound || code != "-32600" {
			return fmt.Errorf("%s: HTTP %d, code %q, %w", try.what, status, code, err)
		}
	}
	return nil
}

// forgedEvent comes back for the rest of another principal's stream, with and
// without a session of its own.
func forgedEvent(ctx context.Context, s *siege) error {
	s.http.mu.Lock()
	if len(s.http.req.events) == 0 {
		s.http.mu.Unlock()
		return errors.New("the bystander's stream has no event ids")
	}
	event := s.http.req.events[0]
	s.http.mu.Unlock()
	c, cell, err := s.attackerOn(ctx, s.http.kind, s.http.cell.to.kind)
	if err != nil {
		return err
	}
	defer c.close()
	l, ok := c.link.(*streamLink)
	if !ok {
		return errors.New("the attacker has no session")
	}
	own := append(l.headers(nil), "Last-Event-ID")
	for _, forged := range []string{event, event[:len(event)-2], "k1.AAAA", "1"} {
		status, code, err := s.exchangeRaw(ctx, http.MethodGet, l.url(), nil, append(own, forged)...)
		if err != nil || status != http.StatusBadRequest || code != "-32600" {
			return fmt.Errorf("the event %s: HTTP %d, code %q, %w", forged, status, code, err)
		}
	}
	status, _, err := s.exchangeRaw(ctx, http.MethodGet, l.url(), nil, "Last-Event-ID", event)
	if err != nil || status != http.StatusMethodNotAllowed {
		return fmt.Errorf("without a session: HTTP %d, %w", status, err)
	}
	return errors.Join(c.barrier(ctx), cell.broken())
}

// forgedCursor reads on where another principal's client has stopped, and in
// another list than the cursor's.
func forgedCursor(ctx context.Context, s *siege) error {
	cursor := func(c *client) ([]byte, error) {
		got, err := c.do(ctx, mcp.MethodToolsList, nil)
		next := mcp.Lookup(got.result, "nextCursor")
		if err == nil && next == nil {
			err = fmt.Errorf("the list has no second page: %s", got.result)
		}
		return []byte(`{"cursor":` + string(next) + `}`), err
	}
	for _, victim := range []*bystander{s.stdio, s.modern} {
		c, cell, err := s.attackerOn(ctx, victim.kind, victim.cell.to.kind)
		if err != nil {
			return err
		}
		forged, err := cursor(victim.client)
		own, err2 := cursor(c)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		for _, try := range []struct {
			what, method string
			params       []byte
		}{
			{"another's cursor", mcp.MethodToolsList, forged},
			{"the cursor of another list", mcp.MethodPromptsList, own},
			{"a cursor of one's own", mcp.MethodToolsList, []byte(`{"cursor":"k1.AAAA"}`)},
			{"a cursor that is none", mcp.MethodToolsList, []byte(`{"cursor":7}`)},
		} {
			got, err := c.do(ctx, try.method, try.params)
			if err := refusedAs(try.what, mcp.CodeInvalidParams, got, err); err != nil {
				return err
			}
		}
		got, err := cell.good(c.do(ctx, mcp.MethodToolsList, own))
		if err == nil {
			_, err = cell.good(victim.do(ctx, mcp.MethodToolsList, forged))
		}
		err = errors.Join(err, cell.broken())
		c.close()
		if err != nil {
			return fmt.Errorf("the cursors do not work for their own: %w: %s", err, got.result)
		}
	}
	return nil
}

// forgedSubscription subscribes under the id of another principal's
// subscription, ends that, and unsubscribes from what only the other has
// subscribed to.
func forgedSubscription(ctx context.Context, s *siege) error {
	for _, down := range []kind{{mcp.V20260728, overStdio}, {mcp.V20260728, overStreamable}, {mcp.V20251125, overStdio}, {mcp.V20251125, overStreamable}} {
		for _, up := range hostileServers {
			if err := s.forgeSubscription(ctx, down, up); err != nil {
				return fmt.Errorf("%s to %s: %w", down, up, err)
			}
		}
	}
	return nil
}

func (s *siege) forgeSubscription(ctx context.Context, down, up kind) error {
	victim, err := s.rig.connect(ctx, down, s.victim, "subscriber", declared(down))
	if err != nil {
		return err
	}
	defer victim.close()
	cell := s.rig.cellOf(victim, up)
	c, own, err := s.attackerOn(ctx, down, up)
	if err != nil {
		return err
	}
	defer c.close()
	sub, err := cell.subscribe(ctx, "")
	if err == nil {
		_, err = cell.await(ctx, "subscribed")
	}
	if err != nil {
		return err
	}
	if down.modern() {
		err = own.stealListen(ctx, sub.listening)
	} else if got, err2 := c.do(ctx, mcp.MethodUnsubscribe, []byte(`{"uri":`+sub.uri+`}`)); err2 != nil {
		err = fmt.Errorf("unsubscribe: %w: %s", err2, got.result)
	}
	if err != nil {
		return err
	}
	if _, err := own.call(ctx, "touch", `,"uri":"`+sub.own+`"`); err != nil {
		return err
	}
	return errors.Join(sub.updated(ctx), sub.end(ctx), cell.broken(), own.broken())
}

// stealListen opens and ends a subscription with the id of another client's.
func (c *cell) stealListen(ctx context.Context, theirs *request) error {
	open := func() (*request, error) {
		req := c.client.newRequest(mcp.MethodListen, c.client.meta([]byte(`{"notifications":{"toolsListChanged":true}}`), ""))
		c.client.mu.Lock()
		delete(c.client.pending, string(req.id))
		req.id = theirs.id
		c.client.pending[string(req.id)] = req
		c.client.mu.Unlock()
		if err := c.client.launch(req); err != nil {
			return nil, err
		}
		return req, c.client.waitFor(ctx, "the acknowledgement", func() bool { return req.acked })
	}
	cancelled := append(append([]byte(`{"requestId":`), theirs.id...), '}')
	if err := c.client.link.send(mcp.AppendNotification(nil, mcp.NotifyCancelled, cancelled), nil); err != nil {
		return err
	}
	req, err := open()
	if err == nil {
		err = c.client.withdraw(req)
	}
	if err == nil {
		err = c.client.barrier(ctx)
	}
	return err
}

// forgedToken calls under the progress token of another principal's call, and
// reports progress on it.
func forgedToken(ctx context.Context, s *siege) error {
	for _, down := range []kind{{mcp.V20251125, overStdio}, {mcp.V20251125, overStreamable}, {mcp.V20260728, overStdio}, {mcp.V20260728, overStreamable}} {
		for _, up := range hostileServers {
			if err := s.forgeToken(ctx, down, up); err != nil {
				return fmt.Errorf("%s to %s: %w", down, up, err)
			}
		}
	}
	return nil
}

func (s *siege) forgeToken(ctx context.Context, down, up kind) error {
	victim, err := s.rig.connect(ctx, down, s.victim, "reported", declared(down))
	if err != nil {
		return err
	}
	defer victim.close()
	cell := s.rig.cellOf(victim, up)
	c, own, err := s.attackerOn(ctx, down, up)
	if err != nil {
		return err
	}
	defer c.close()
	token := []byte(`{"progressToken":"tok ` + cell.id + `"}`)
	req, err := victim.start(mcp.MethodToolsCall, victim.meta(mcp.SetMember(cell.params("steps", ""), "_meta", token), ""))
	if err != nil {
		return err
	}
	if err := victim.waitFor(ctx, "progress", func() bool { return len(req.notes) > 0 }); err != nil {
		return err
	}
	forged := mcp.AppendNotification(nil, mcp.NotifyProgress, []byte(`{"progressToken":"tok `+cell.id+`","progress":99,"total":99}`))
	if err := c.link.send(forged, nil); err != nil {
		return err
	}
	got, err := own.good(c.do(ctx, mcp.MethodToolsCall, mcp.SetMember(own.params("progress", ""), "_meta", token)))
	if err == nil {
		err = own.reported(got.last, 3)
	}
	if err != nil {
		return fmt.Errorf("the attacker's own: %w", err)
	}
	cell.say("go on", "")
	if _, err := victim.wait(ctx, req); err != nil {
		return err
	}
	return errors.Join(victim.barrier(ctx), cell.reported(req, 3), cell.broken(), own.broken())
}

// forgedTask looks at, answers, fetches and cancels another principal's task.
func forgedTask(ctx context.Context, s *siege) error {
	for _, pair := range [][2]kind{
		{{mcp.V20260728, overStreamable}, {mcp.V20260728, overStreamable}},
		{{mcp.V20260728, overStdio}, {mcp.V20260728, overStdio}},
		{{mcp.V20251125, overStdio}, {mcp.V20251125, overStdio}},
		{{mcp.V20251125, overStreamable}, {mcp.V20251125, overStreamable}},
	} {
		if err := s.forgeTask(ctx, pair[0], pair[1]); err != nil {
			return fmt.Errorf("%s: %w", pair[0], err)
		}
	}
	return nil
}

func (s *siege) forgeTask(ctx context.Context, down, up kind) error {
	victim, err := s.rig.connect(ctx, down, s.victim, "taskmaster", declared(down))
	if err != nil {
		return err
	}
	defer victim.close()
	cell := s.rig.cellOf(victim, up)
	c, own, err := s.attackerOn(ctx, down, up)
	if err != nil {
		return err
	}
	defer c.close()
	params, _, err := cell.taskParams(ctx)
	if err != nil {
		return err
	}
	made, err := cell.good(victim.do(ctx, mcp.MethodToolsCall, params))
	if err != nil {
		return err
	}
	task := mcp.Lookup(made.result, "task")
	if down.modern() {
		task = made.result
	}
	methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
	if down.modern() {
		methods[2] = "tasks/update"
	}
	for _, method := range methods {
		params := []byte(`{"taskId":` + string(mcp.Lookup(task, "taskId")) + `}`)
		if method == "tasks/update" {
			params = mcp.SetMember(params, "inputResponses", []byte(`{}`))
		}
		if down.modern() {
			params = own.declaring(params)
		}
		got, err := c.do(ctx, method, params)
		if err := refusedAs(method, mcp.CodeInvalidParams, got, err); err != nil {
			return err
		}
	}
	return errors.Join(cell.poll(ctx, task), cell.broken(), own.broken())
}
