//go:build e2e && !windows

package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// socketName is the name of PostgreSQL's socket in its folder.
const socketName = ".s.PGSQL.5432"

// tap carries the connections of gateways to a database, and notes in a history what they ask
// of their budgets and what they are answered. It stays when a gateway is killed, so that the
// history has what became of its last charges.
type tap struct {
	to      string // the socket of the database
	history *budgettest.History

	mu   sync.Mutex
	open map[net.Conn]struct{}
	bad  error // what was asked in a way that the tap does not know
}

// newTap starts a tap. It returns the address at which gateways reach the database through it.
func newTap(t *testing.T, database string) (tp *tap, address string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tap") //nolint:usetesting // t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	tp = &tap{to: filepath.Join(query.Get("host"), socketName), history: new(budgettest.History), open: make(map[net.Conn]struct{})}
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		tp.mu.Lock()
		for c := range tp.open {
			_ = c.Close()
		}
		tp.mu.Unlock()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	all.Go(func() { // until the listener is closed
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { tp.carry(in.(*net.UnixConn)) })
		}
	})
	return tp, u.String()
}

// carry carries a connection until both sides have ended.
func (tp *tap) carry(in *net.UnixConn) {
	defer in.Close()
	to, err := net.Dial("unix", tp.to)
	if err != nil {
		return
	}
	defer to.Close()
	out := to.(*net.UnixConn)
	tp.mu.Lock()
	tp.open[in], tp.open[out] = struct{}{}, struct{}{}
	tp.mu.Unlock()
	s := &session{tap: tp, charging: make(map[string]bool), asked: 1} // the database is ready first
	var asking sync.WaitGroup
	asking.Go(func() {
		_ = frames(out, in, true, s.asks)
		_ = out.CloseWrite() // what it has been asked, it still answers
	})
	_ = frames(in, out, false, s.answers)
	s.ends()
	_ = in.Close()
	asking.Wait()
	tp.mu.Lock()
	defer tp.mu.Unlock()
	delete(tp.open, in)
	delete(tp.open, out)
}

// frames carries the messages of PostgreSQL's protocol, each once saw has seen it. The first
// one of a client has no type.
func frames(to io.Writer, from io.Reader, untyped bool, saw func(kind byte, body []byte)) error {
	for {
		head := make([]byte, 5)
		if untyped {
			head = head[:4]
		}
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(head[len(head)-4:])
		if length < 4 || length > 1<<30 {
			return fmt.Errorf("a message of %d bytes", length)
		}
		body := make([]byte, length-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return err
		}
		if !untyped {
			saw(head[0], body)
		}
		untyped = false
		if _, err := to.Write(append(head, body...)); err != nil {
			return err
		}
	}
}

// session is one connection to the database.
type session struct {
	tap *tap

	mu           sync.Mutex
	charging     map[string]bool // the prepared statements that charge
	asked, ready int             // rounds of questions that were sent, and that were answered
	access       *budgettest.Access
	round        int    // of the access
	answer       []byte // of the access
}

// asks sees what a gateway asks.
func (s *session) asks(kind byte, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parse pgproto3.Parse
	var bind pgproto3.Bind
	switch {
	case kind == 'P' && parse.Decode(body) == nil:
		s.charging[parse.Name] = strings.Contains(parse.Query, "toolgate_budget(")
	case kind == 'B' && bind.Decode(body) == nil && s.charging[bind.PreparedStatement]:
		orders, err := ordersOf(bind.Parameters)
		if err != nil || s.access != nil {
			s.tap.wrong(fmt.Errorf("charges that are not understood: %w", err))
			return
		}
		s.access, s.round, s.answer = &budgettest.Access{Call: time.Now(), Orders: orders}, s.asked, nil
	case kind == 'S':
		s.asked++
	case kind == 'Q':
		s.asked++
		if bytes.Contains(body, []byte("toolgate_budget(")) && !bytes.Contains(body, []byte("FUNCTION")) {
			s.tap.wrong(errors.New("charges without parameters"))
		}
	}
}

// answers sees what the database answers. What was asked in a round has taken effect for good
// when it is ready for the next one.
func (s *session) answers(kind byte, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var row pgproto3.DataRow
	switch {
	case kind == 'D' && s.access != nil && s.ready == s.round && row.Decode(body) == nil && len(row.Values) == 1:
		s.answer = bytes.Clone(row.Values[0])
	case kind == 'E' && s.access != nil && s.ready == s.round:
		s.answer = nil
	case kind == 'Z':
		s.ready++
		if s.access != nil && s.ready > s.round {
			s.note()
		}
	}
}

// ends notes an access that is not answered.
func (s *session) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.access != nil {
		s.answer = nil
		s.note()
	}
}

// note adds the access to the history; mu is held.
func (s *session) note() {
	a := s.access
	s.access, a.Return = nil, time.Now()
	a.Lost = s.answer == nil
	if !a.Lost {
		if err := answersOf(a.Orders, s.answer); err != nil {
			s.tap.wrong(err)
			return
		}
	}
	s.tap.history.Add(a)
}

// wrong notes what the tap does not understand.
func (tp *tap) wrong(err error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.bad = errors.Join(tp.bad, err)
}

// ordersOf returns the orders of a request to the function toolgate_budget.
func ordersOf(parameters [][]byte) (orders []*budget.Order, err error) {
	if len(parameters) != 1 {
		return nil, fmt.Errorf("there are %d parameters", len(parameters))
	}
	var bills []struct {
		Call      string
		Round     int
		At, Until int64
		Charges   []struct {
			B, M          string
			K             []byte
			S, E, A, L, N int64
		}
		Settle []int64
	}
	if err := json.Unmarshal(bytes.TrimPrefix(parameters[0], []byte{1}), &bills); err != nil {
		return nil, err
	}
	for _, b := range bills {
		bill := &budget.Bill{Key: budget.Key{Call: b.Call, Round: b.Round}, At: time.UnixMilli(b.At).UTC(), Until: time.UnixMilli(b.Until).UTC()}
		for _, c := range b.Charges {
			bill.Charges = append(bill.Charges, budget.Charge{
				Counter: budget.Counter{Budget: c.B, Measure: c.M, Key: string(c.K)},
				Start:   time.UnixMilli(c.S).UTC(), End: time.UnixMilli(c.E).UTC(), Amount: c.A, Least: c.L, Limit: c.N,
			})
		}
		orders = append(orders, &budget.Order{Bill: bill, Settle: b.Settle != nil, Used: b.Settle})
	}
	return orders, nil
}

// answersOf gives orders the answers of the function toolgate_budget.
func answersOf(orders []*budget.Order, answer []byte) error {
	var answers []struct {
		Granted []struct{ T, U int64 }
		Refused *int
		U, R    int64
	}
	if err := json.Unmarshal(bytes.TrimPrefix(answer, []byte{1}), &answers); err != nil || len(answers) != len(orders) {
		return fmt.Errorf("%d answers to %d orders: %w", len(answers), len(orders), err)
	}
	for i, a := range answers {
		o := orders[i]
		if a.Refused != nil {
			o.Err = o.Bill.Charges[*a.Refused].Refuse(a.U, time.UnixMilli(a.R).UTC())
		}
		for j, g := range a.Granted {
			o.Balances = append(o.Balances, budget.Balance{Counter: o.Bill.Charges[j].Counter, Taken: g.T, Used: g.U})
		}
	}
	return nil
}

// explained checks the charges of all gateways, and returns what they come to.
func (tp *tap) explained(t *testing.T) budgettest.Totals {
	t.Helper()
	tp.mu.Lock()
	bad := tp.bad
	tp.mu.Unlock()
	if bad != nil {
		t.Error(bad)
	}
	began := time.Now()
	totals, err := tp.history.Check(patience)
	if err != nil {
		t.Error(err)
	}
	all, lost := tp.history.Len()
	t.Logf("%d accesses to the budgets, %d of them without an answer, checked in %v: %v", all, lost, time.Since(began).Round(time.Millisecond), totals)
	return totals
}

// What a tap notes of a real database is explained, unless a charge was counted twice there, or
// was lost.
func TestTap(t *testing.T) {
	database := storetest.StartPostgres(t)
	for change, holds := range map[string]bool{"used": true, "used + 1": false, "used - 1": false} {
		address := database.URL(t)
		tp, through := newTap(t, address)
		charges := sqlstore.New(storetest.Opened(t, store.Options{URL: through, Durable: true}), nil)
		for i := range 10 {
			if i == 5 {
				u, _ := url.Parse(address)
				database.Exec(t, strings.TrimPrefix(u.Path, "/"), "UPDATE budget_window SET used = "+change)
			}
			b := budgettest.Bill(fmt.Sprint(i), budgettest.Hour("b", "k", 7))
			_, err := charges.Charge(t.Context(), b)
			if _, refused := errors.AsType[*budget.Refusal](err); err != nil && !refused {
				t.Fatal(err)
			}
			if err := charges.Settle(t.Context(), b, []int64{int64(i % 2)}); err != nil {
				t.Fatal(err)
			}
		}
		if all, lost := tp.history.Len(); all != 20 || lost != 0 || tp.bad != nil {
			t.Errorf("%d accesses, %d without an answer, %v", all, lost, tp.bad)
		}
		if _, err := tp.history.Check(patience); (err == nil) != holds {
			t.Errorf("used becomes %s: %v", change, err)
		}
	}
}
