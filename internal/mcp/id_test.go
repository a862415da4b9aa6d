package mcp_test

import (
	"math"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestParseID(t *testing.T) {
	for _, in := range []string{`0`, `-0`, `7`, `-7`, `18446744073709551616`, `""`, `"a"`, `"\ud800"`} {
		if id, ok := mcp.ParseID([]byte(in)); string(id) != in || !ok {
			t.Errorf("ParseID(%s) = %s, %t", in, id, ok)
		}
	}
	for _, in := range []string{
		``, `-`, `1.0`, `1e0`, `1E1`, `-1.5`, `null`, `true`, `false`, `{}`, `[1]`,
		strings.Repeat("1", mcp.MaxIDLength+1), `"` + strings.Repeat("a", mcp.MaxIDLength-1) + `"`,
	} {
		if id, ok := mcp.ParseID([]byte(in)); id != "" || ok {
			t.Errorf("ParseID(%.20s) = %s, %t", in, id, ok)
		}
	}
}

func TestIDKeyTellsEqualIDs(t *testing.T) {
	for _, ids := range [][2]mcp.ID{
		{`"a"`, `"\u0061"`}, {`"/"`, `"\/"`}, {`"😀"`, `"\ud83d\ude00"`}, {`7`, `7`}, {``, ``},
	} {
		if ids[0].Key() != ids[1].Key() {
			t.Errorf("%s and %s have the keys %q and %q", ids[0], ids[1], ids[0].Key(), ids[1].Key())
		}
	}
	for _, ids := range [][2]mcp.ID{
		{`1`, `"1"`},
		{`9007199254740992`, `9007199254740993`},
		{`"a"`, `"A"`},
		{``, `""`},
		{`1`, `-1`},
		{`18446744073709551617`, `1`},
		{`"\""`, `"\\\""`},
	} {
		if ids[0].Key() == ids[1].Key() {
			t.Errorf("%s and %s share the key %q", ids[0], ids[1], ids[0].Key())
		}
	}
}

func TestIDsOfOurOwn(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 9007199254740993, math.MaxInt64, math.MinInt64} {
		id := mcp.NumberID(n)
		if got, ok := id.Int(); got != n || !ok {
			t.Errorf("NumberID(%d).Int() = %d, %t", n, got, ok)
		}
		if parsed, ok := mcp.ParseID([]byte(id)); parsed != id || !ok {
			t.Errorf("ParseID(%s) = %s, %t", id, parsed, ok)
		}
	}
	for _, id := range []mcp.ID{``, `"1"`, `9223372036854775808`, `-9223372036854775809`} {
		if n, ok := id.Int(); ok {
			t.Errorf("ID %s has the number %d", id, n)
		}
	}
	if id := mcp.StringID("a\"\n世"); id != `"a\"\n世"` || id.Absent() {
		t.Errorf("StringID = %s", id)
	}
	if !mcp.ID("").Absent() || mcp.ID(`""`).Absent() || mcp.ID("0").Absent() {
		t.Error("Absent is true for another id than the empty one")
	}
}
