package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// take assigns each order its line of the script's answer.
func (r *request) take(answer string) {
	if n := strings.Count(answer, "\n") + 1; n != len(r.orders) {
		r.fail(fmt.Errorf("the server answered %d lines to %d orders", n, len(r.orders)))
		return
	}
	for _, o := range r.orders {
		var line string
		line, answer, _ = strings.Cut(answer, "\n")
		o.Balances, o.Err = read(o, line)
	}
}

// read parses the answer to an order.
func read(o *budget.Order, line string) ([]budget.Balance, error) {
	charges := o.Bill.Charges
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case word == "other":
		return nil, budget.ErrOther
	case !o.Settle && word == "failed":
		return nil, errors.New(rest)
	case o.Settle && line == "settled":
		return nil, nil
	case !o.Settle && word == "refused":
		var n [3]int64
		if numbers(rest, n[:]) && n[0] >= 1 && n[0] <= int64(len(charges)) {
			return nil, charges[n[0]-1].Refuse(n[1], time.UnixMilli(n[2]).UTC())
		}
	case !o.Settle && word == "charged":
		balances, n := make([]budget.Balance, len(charges)), make([]int64, 4*len(charges))
		if !numbers(rest, n) {
			break
		}
		for i := range charges {
			own := n[4*i:]
			balances[i] = budget.Balance{
				Counter: charges[i].Counter, Taken: own[0], Used: own[1],
				Start: time.UnixMilli(own[2]).UTC(), ResetAt: time.UnixMilli(own[3]).UTC(),
			}
		}
		return balances, nil
	}
	return nil, fmt.Errorf("%.200q is no answer", line)
}

// numbers parses whole numbers with spaces between them; false if their number is wrong
// or there is anything else.
func numbers(text string, into []int64) bool {
	for i := range into {
		word, rest, more := strings.Cut(text, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || more != (i < len(into)-1) {
			return false
		}
		into[i], text = n, rest
	}
	return true
}
