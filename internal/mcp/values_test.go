package mcp_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Values count at any depth; keys do not count.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	for text, values := range map[string]int{
		`1`: 1, `"a"`: 1, `[]`: 1, `{}`: 1, `[[]]`: 2, `{"a":{"b":null},"c":[true,1.5]}`: 6,
		manyMembers(500): 501, `[` + strings.Repeat("{},", 99) + `{}]`: 101,
	} {
		if err := mcp.Validate([]byte(text), mcp.Limits{Values: values}); err != nil {
			t.Errorf("%.40s with %d values: %v", text, values, err)
		}
		err := mcp.Validate([]byte(text), mcp.Limits{Values: values - 1})
		if values == 1 {
			continue // which is no bound
		}
		if _, ok := errors.AsType[*mcp.SyntaxError](err); !ok || !strings.HasPrefix(err.Error(), "more than ") {
			t.Errorf("%.40s with more than %d values: %v", text, values-1, err)
		}
	}
}

// A sender of too many values is told so, under the id of the request. Invalid JSON is
// not reported as too much.
func TestTooManyValuesOfAMessage(t *testing.T) {
	t.Parallel()
	limits := mcp.Limits{Values: 100}
	flood := strings.Repeat("{},", 200) + "{}"
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"m","params":{"a":[` + flood + `]},"id":7}`:        "-32600 7",
		`{"jsonrpc":"2.0","method":"m","params":{"a":[` + flood + `},"id":7}`:         "-32700 ",
		`{"jsonrpc":"2.0","method":"m","params":{"a":[` + flood + `]},"id":7,"id":8}`: "-32600 ",
		`{"jsonrpc":"2.0","method":"m","params":{"a":[]},"id":7}`:                     "",
	} {
		msg, err := mcp.Parse([]byte(raw), limits)
		got := ""
		if fault, ok := errors.AsType[*mcp.Error](err); ok {
			got = fmt.Sprint(fault.Code, " ", msg.ID)
		}
		if got != want {
			t.Errorf("%.60s: %q, error %v, want %q", raw, got, err, want)
		}
	}
	_, _, err := mcp.SplitBatch([]byte("["+flood+"]"), limits, 1000)
	if fault, ok := errors.AsType[*mcp.Error](err); !ok || fault.Code != mcp.CodeInvalidRequest {
		t.Errorf("batch: %v", err)
	}
}

// The memory for reading a message does not grow with what exceeds the limit.
func TestFloodOfKeysIsNotKept(t *testing.T) { // not parallel: it counts allocations
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + manyMembers(1_000_000) + `}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := mcp.Parse(raw, mcp.Limits{Values: 100_000}); err == nil {
		t.Error("it is accepted")
	}
	runtime.ReadMemStats(&after)
	// The keys up to the bound, and a table of four times as many places, both grown
	// by doubling.
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("%d KiB are allocated", got>>10)
	}
}
