//go:build e2e

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream"
)

// manyQuestions is what a server asks that knows no end.
const manyQuestions = 1000

// hostility is one way in which a server asks too much.
type hostility struct {
	about string
	flood bool // at once
	// most is how many questions may reach the client.
	most func(up kind) int
}

var hostilities = []hostility{
	{"asks without end, one after the other", false, func(up kind) int {
		if up.modern() {
			return 10 // rounds
		}
		return 64 // questions of a call
	}},
	{"asks everything at once", true, func(up kind) int {
		if up.modern() {
			return 0 // such a round is not shown at all
		}
		return 64
	}},
}

// mostRetries is how often the patient client goes on by itself.
const mostRetries = 2 * mostRounds

// TestServersThatAskTooMuch has a server ask a thousand questions inside one
// call. Its client hears of a bounded number, and the call ends; clients whose
// servers ask one question are asked it.
func TestServersThatAskTooMuch(t *testing.T) {
	r := startRig(t, setup{
		workers: 2, servers: hostileServers,
		mounts: func(kind) []upstream.Isolation { return []upstream.Isolation{upstream.IsolateAuto} },
		limits: func(l *config.Limits) { l.SuspendedPerPrincipal = 64 },
	})
	for _, h := range hostilities {
		for _, down := range []kind{
			{mcp.V20241105, overStdio},
			{mcp.V20251125, overStreamable},
			{mcp.V20260728, overStreamable},
		} {
			t.Run(h.about+"/"+down.String(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), *cellTime)
				defer cancel()
				for _, up := range hostileServers {
					h.judge(ctx, t, r, down, up)
				}
			})
		}
	}
	for _, stray := range r.strays() {
		t.Errorf("outside of every call: %s", stray)
	}
}

func (h *hostility) judge(ctx context.Context, t *testing.T, r *rig, down, up kind) {
	t.Helper()
	s := &siege{rig: r, victim: r.workers[0], attacker: r.workers[1]}
	if err := s.surround(ctx); err != nil {
		t.Fatal(err)
	}
	asked, err := h.ask(ctx, r, r.workers[1], down, up)
	if err != nil {
		t.Errorf("%s: %v", up, err)
	}
	if most := h.most(up); asked > most {
		t.Errorf("%s: the client was asked %d times, more than %d", up, asked, most)
	}
	if err := s.lift(ctx); err != nil {
		t.Errorf("%s: %v", up, err)
	}
}

// ask makes the call and returns how many questions reached the client.
func (h *hostility) ask(ctx context.Context, r *rig, w worker, down, up kind) (asked int, err error) {
	c, err := r.connect(ctx, down, w, "patient", declared(down))
	if err != nil {
		return 0, err
	}
	defer c.close()
	cell := r.cellOf(c, up)
	raw, err := json.Marshal(script{Cell: cell.id, Flood: h.flood, Repeat: manyQuestions, Rounds: [][]question{{cell.other("k")}}})
	if err != nil {
		return 0, err
	}
	params := []byte(`{"name":"` + cell.to.tool("ask") + `","arguments":` + string(raw) + `}`)
	next := c.meta(params, "")
	for range mostRetries {
		got, err := c.once(ctx, next)
		if err != nil {
			return asked, err
		}
		if kind, _ := mcp.LookupString(got.result, "resultType"); kind != mcp.ResultInputRequired {
			break
		}
		_, methods := c.answersTo(got.result)
		asked += len(methods)
		if next, err = c.retry(params, got.result); err != nil {
			return asked, err
		}
	}
	if err := c.barrier(ctx); err != nil {
		return asked, err
	}
	c.mu.Lock()
	asked += len(c.asked)
	c.mu.Unlock()
	return asked, cell.broken()
}

// unruly is what a server says that it has no business to say.
func (in *incoming) unruly() []byte {
	for _, id := range []mcp.ID{mcp.NumberID(0), mcp.NumberID(-1), mcp.NumberID(1 << 40), mcp.StringID("toolgate-1"), in.msg.ID + "0"} {
		in.send(mcp.AppendResult(nil, id, text([]byte("forged"), "")))
		in.send(mcp.AppendFault(nil, id, mcp.Errorf(-1, "forged")))
		in.notify(mcp.NotifyCancelled, `{"requestId":`+string(id)+`}`)
		in.notify(mcp.NotifyProgress, `{"progressToken":`+string(id)+`,"progress":1}`)
		in.notify(mcp.NotifyResourceUpdated, `{"uri":"res://host/fancy","_meta":{"`+mcp.MetaSubscriptionID+`":`+string(id)+`}}`)
	}
	in.notify(mcp.NotifyProgress, `{"progressToken":"tok","progress":1}`)
	in.notify("notifications/tasks/status", `{"taskId":"task 1","status":"completed"}`)
	return text([]byte("unruly"), "")
}

// TestUnrulyServers has a server answer what was not asked, and report on
// requests, subscriptions and tasks that are not its caller's. Nobody hears of
// it, and the calls of others at the same server end well.
func TestUnrulyServers(t *testing.T) {
	r := startRig(t, setup{
		workers: 2, servers: hostileServers,
		mounts: func(kind) []upstream.Isolation { return []upstream.Isolation{upstream.IsolateAuto} },
	})
	for _, down := range []kind{{mcp.V20251125, overStdio}, {mcp.V20241105, overSSE}, {mcp.V20251125, overStreamable}, {mcp.V20260728, overStreamable}} {
		for _, up := range hostileServers {
			t.Run(down.slug()+" to "+up.slug(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), *cellTime)
				defer cancel()
				s := &siege{rig: r, victim: r.workers[0], attacker: r.workers[1], name: "caller"}
				if err := s.surround(ctx); err != nil {
					t.Fatal(err)
				}
				if err := s.unruly(ctx, down, up); err != nil {
					t.Error(err)
				}
				if err := s.lift(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, stray := range r.strays() {
		t.Errorf("outside of every call: %s", stray)
	}
}

func (s *siege) unruly(ctx context.Context, down, up kind) error {
	c, cell, err := s.attackerOn(ctx, down, up)
	if err != nil {
		return err
	}
	defer c.close()
	got, err := cell.call(ctx, "log", `,"unruly":true`)
	if err != nil {
		return err
	}
	c.mu.Lock()
	strays := slices.DeleteFunc(slices.Clone(c.aside), func(note mcp.Message) bool {
		return strings.HasSuffix(note.Method, "/list_changed")
	})
	c.mu.Unlock()
	if len(strays) > 0 {
		err = fmt.Errorf("the client was told %s", raws(strays))
	}
	return errors.Join(err, is("the result", []byte(said(got.result)), "unruly"), c.barrier(ctx), cell.broken())
}
