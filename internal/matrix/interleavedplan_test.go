//go:build e2e

package matrix

import (
	"math/rand/v2"

	"github.com/toolgate/toolgate/internal/mcp"
)

// plan is what a seed decides of a call.
type plan struct {
	to     kind
	method string
	shape  [][]int // the kinds of questions, by rounds
	pauses []int64 // how many other things happen before an answer, in turn
}

// plansOf decides on n calls: those that come first, by principals, and the
// others, by guests. The first ask each server whose channel is shared once.
func plansOf(seed uint64, n int) (first, rest [][]plan) {
	order := rand.New(rand.NewPCG(seed, 0))
	first, rest = make([][]plan, crowdPrincipals), make([][]plan, crowdClients)
	for i := range first {
		for _, k := range crowdServers {
			if !k.modern() && !k.streams() {
				first[i] = append(first[i], planOf(order, k, [][]int{{0}}))
				n--
			}
		}
	}
	for i := range n {
		to := crowdServers[order.IntN(len(crowdServers))]
		rest[i%len(rest)] = append(rest[i%len(rest)], planOf(order, to, shapeOf(order)))
	}
	return first, rest
}

func planOf(order *rand.Rand, to kind, shape [][]int) plan {
	p := plan{to: to, shape: shape, method: mcp.MethodToolsCall}
	switch order.IntN(8) {
	case 0:
		p.method = mcp.MethodPromptsGet
	case 1:
		p.method = mcp.MethodRead
	}
	for range 4 {
		p.pauses = append(p.pauses, order.Int64N(30))
	}
	return p
}

// shapeOf decides what a call asks: nothing, one question, several at once, or
// rounds of them.
func shapeOf(order *rand.Rand) [][]int {
	round := func(n int) (kinds []int) {
		for range n {
			kinds = append(kinds, order.IntN(4))
		}
		return kinds
	}
	switch order.IntN(4) {
	case 0:
		return nil
	case 1:
		return [][]int{round(1)}
	case 2:
		return [][]int{round(2 + order.IntN(3))}
	}
	var rounds [][]int
	for range 2 + order.IntN(2) {
		rounds = append(rounds, round(1+order.IntN(2)))
	}
	return rounds
}
