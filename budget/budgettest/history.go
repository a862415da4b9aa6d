package budgettest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/toolgate/toolgate/budget"
)

// Access is one access to a store. Its orders take effect together, one after the other, at one
// moment from Call to Return.
type Access struct {
	Call, Return time.Time
	Orders       []*budget.Order
	// Lost tells that there was no answer: the orders may have taken effect until Return, or
	// never.
	Lost bool
}

// History is what gateways have asked of a store that starts empty, and its answers. The zero
// value is ready. It is safe for concurrent use.
type History struct {
	mu       sync.Mutex
	accesses []*Access
}

// Add adds an access.
func (h *History) Add(a *Access) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accesses = append(h.accesses, a)
}

// Len returns how many accesses there are, and how many of them were lost.
func (h *History) Len() (all, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.accesses {
		if a.Lost {
			lost++
		}
	}
	return len(h.accesses), lost
}

// Totals are the sums of counters over all their windows.
type Totals map[budget.Counter]int64

const (
	// minPart is how many accesses are checked together at least: a check remembers for each of
	// them which of the others it follows.
	minPart = 1000
	// afterLost is how many accesses have to follow one that was lost in the same part, so that
	// their answers tell whether it has taken effect.
	afterLost = 20
)

// Check returns an error unless one order of the accesses explains all answers: no charge is
// counted twice, and none is lost. It returns the totals of the store at the end; they are a guess
// where one of the last accesses was lost. within bounds the time for each part of the history,
// which ends where nothing is in flight.
func (h *History) Check(within time.Duration) (Totals, error) { return h.check(within, minPart) }

func (h *History) check(within time.Duration, least int) (Totals, error) {
	h.mu.Lock()
	all := slices.Clone(h.accesses)
	h.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *Access) int { return a.Call.Compare(b.Call) })
	mentions := make(map[budget.Key]int)
	for _, a := range all {
		for _, o := range a.Orders {
			mentions[o.Bill.Key]++
		}
	}
	may := []any{&books{}}
	for len(all) > 0 {
		n := part(all, least)
		var err error
		if may, err = explain(all[:n], may, mentions, within); err != nil {
			return nil, err
		}
		all = all[n:]
	}
	return may[0].(*books).totals(), nil
}

// part returns how many of the first accesses end before all others begin, where those tell what
// became of the lost ones among them.
func part(all []*Access, least int) int {
	again := make(map[budget.Key]int) // where each bill is mentioned last
	for i, a := range all {
		for _, o := range a.Orders {
			again[o.Bill.Key] = i
		}
	}
	var last time.Time
	for i, a := range all {
		if i >= least && a.Call.After(last) {
			return i
		}
		if a.Return.After(last) {
			last = a.Return
		}
		if a.Lost {
			least = max(least, i+1+afterLost)
			for _, o := range a.Orders {
				least = max(least, again[o.Bill.Key]+1)
			}
		}
	}
	return len(all)
}

// explain finds an order of accesses that begin with one of some books. It returns the books
// that may be there after them.
func explain(all []*Access, may []any, mentions map[budget.Key]int, within time.Duration) ([]any, error) {
	nondeterministic := porcupine.NondeterministicModel{
		Init:  func() []any { return may },
		Step:  func(s, a, _ any) []any { return s.(*books).after(a.(*Access), mentions) },
		Equal: func(a, b any) bool { return a.(*books).equal(b.(*books)) },
	}
	model := nondeterministic.ToModel()
	history := make([]porcupine.Operation, len(all))
	for i, a := range all {
		history[i] = porcupine.Operation{Input: a, Call: int64(a.Call.Sub(all[0].Call)), Return: int64(a.Return.Sub(all[0].Call))}
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, within)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, ordered := range partial {
			if len(ordered) > len(longest) {
				longest = ordered
			}
		}
	}
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		return nil, fmt.Errorf("%d accesses: no order was found within %v", len(all), within)
	default:
		return nil, unexplained(history, longest)
	}
	state := model.Init()
	for i := range longest {
		_, state = model.Step(state, longest[i].Input, nil)
	}
	return state.([]any), nil
}

// unexplained says which accesses no order explains: those that come first after the longest
// one that holds.
func unexplained(history, longest []porcupine.Operation) error {
	done := make(map[any]bool)
	for i := range longest {
		done[longest[i].Input] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no order of these accesses is that of one store; %d of %d agree, and then none of:", len(longest), len(history))
	shown := 0
	for i := range history {
		a := history[i].Input.(*Access)
		if done[a] || shown == 8 {
			continue
		}
		shown++
		fmt.Fprintf(&b, "\n%s to %s", a.Call.Format(timeOfDay), a.Return.Format(timeOfDay))
		if a.Lost {
			b.WriteString(", lost")
		}
		for _, o := range a.Orders {
			fmt.Fprintf(&b, "\n  %s", describe(o))
		}
	}
	return errors.New(b.String())
}

const timeOfDay = "15:04:05.000000"

func describe(o *budget.Order) string {
	what := fmt.Sprintf("%s/%d at %s", o.Bill.Call, o.Bill.Round, o.Bill.At.Format(timeOfDay))
	if o.Settle {
		return fmt.Sprintf("settle %s with %v", what, o.Used)
	}
	for i := range o.Bill.Charges {
		c := &o.Bill.Charges[i]
		what += fmt.Sprintf(", %d to %d of %s %s", cmp.Or(c.Least, c.Amount), c.Amount, c.Budget, c.Measure)
	}
	return fmt.Sprintf("charge %s: %s", what, outcome(o.Balances, o.Err))
}
