package schema_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient waits for a schema on a machine that is busy with other things.
var patient = schema.Options{Wait: time.Minute}

// numbered is a small schema that differs from others by its number.
func numbered(n int) []byte { return fmt.Appendf(nil, `{"maxProperties":%d}`, n) }

func compile(t *testing.T, c *schema.Checker, text []byte) *schema.Schema {
	t.Helper()
	s, err := c.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestManyCallersShareOnePreparation(t *testing.T) {
	c := schema.New(patient)
	text := []byte(`{"properties":{` + repeat(500, `"p%d":{"type":"string"}`) + `}}`)
	var wg sync.WaitGroup
	got := make([]*schema.Schema, 32)
	for i := range got {
		wg.Go(func() { got[i], _ = c.Compile(text) })
	}
	wg.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatalf("prepared more than once: %p and %p", got[0], s)
		}
	}
}

func TestTheLeastRecentlyUsedIsDropped(t *testing.T) {
	for name, o := range map[string]schema.Options{
		"by entries": {Entries: 2, Wait: time.Minute},
		"by bytes":   {Bytes: int64(2 * len(numbered(1))), Wait: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := schema.New(o)
			first, second := compile(t, c, numbered(1)), compile(t, c, numbered(2))
			compile(t, c, numbered(1))
			compile(t, c, numbered(3))
			if compile(t, c, numbered(1)) != first {
				t.Error("the one used last was dropped")
			}
			if compile(t, c, numbered(2)) == second {
				t.Error("more is kept than may be")
			}
		})
	}
}

func TestASchemaIsNotTheCallersMemory(t *testing.T) {
	c := schema.New(patient)
	text := []byte(`{"required":["a"]}`)
	s := compile(t, c, text)
	for i := range text {
		text[i] = ' '
	}
	if s.Check(schema.ReadArguments([]byte(`{}`))).Valid || compile(t, c, []byte(`{"required":["a"]}`)) != s {
		t.Error("a change of the caller's memory changed the schema")
	}
}

func TestACallerWaitsOnlySoLong(t *testing.T) {
	c := schema.New(schema.Options{Wait: 1})
	text := []byte(`{"properties":{` + repeat(900, `"p%d":{"type":"string"}`) + `}}`)
	_, err := c.Compile(text)
	if q, ok := errors.AsType[*schema.Quarantined](err); !ok || !q.Busy {
		t.Fatalf("error %v, want busy", err)
	}
	if !testwait.Within(time.Minute, func() bool {
		_, err = c.Compile(text)
		return err == nil
	}) {
		t.Fatal(err)
	}
}

func TestPreparationsAreBounded(t *testing.T) {
	c := schema.New(schema.Options{Wait: 1})
	before, most, busy := runtime.NumGoroutine(), 0, 0
	for i := range 300 {
		_, err := c.Compile([]byte(`{"properties":{` + repeat(150, fmt.Sprintf(`"p%d_%%d":{"type":"string"}`, i)) + `}}`))
		if q, ok := errors.AsType[*schema.Quarantined](err); ok && q.Busy {
			busy++
		}
		most = max(most, runtime.NumGoroutine()-before)
	}
	if most > 140 || busy < 100 {
		t.Errorf("%d goroutines at a time, %d of 300 told to come again", most, busy)
	}
	testwait.Within(time.Minute, func() bool { return runtime.NumGoroutine() <= before })
}

func TestConcurrentChecks(t *testing.T) {
	c := schema.New(schema.Options{Entries: 3, Wait: time.Minute})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				n := (i + j) % 6
				r, err := c.Check(numbered(n), []byte(`{"a":1,"b":2,"c":3}`))
				if err != nil || r.Valid != (n >= 3) {
					t.Errorf("at most %d: %+v, %v", n, r, err)
				}
			}
		})
	}
	wg.Wait()
}
