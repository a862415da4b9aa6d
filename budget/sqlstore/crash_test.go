package sqlstore_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
)

// kills is how often a process is killed; `make soak` does it often.
var kills = flag.Int("kills", 4, "how often a process is killed in the tests of crashes")

// childVar turns the test binary into a process that makes calls. Its value is the
// store, as a path or a URL, and the name of the process.
const childVar = "SQLSTORE_TEST_CHILD"

// inFlight is how many calls such a process has in flight, reserved what each
// reserves, and spent what it uses of that.
const (
	inFlight = 8
	reserved = 1000
	spent    = 10
)

// child charges, delivers and settles calls until it is killed. A line on its
// unbuffered output is the delivery.
func child(address string) error {
	where, name, _ := strings.Cut(address, "\n")
	o := store.Options{Path: where, Durable: true}
	if strings.HasPrefix(where, "postgres:") {
		o = store.Options{URL: where, Durable: true}
	}
	ctx := context.Background()
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	go s.Run(ctx) //nolint:errcheck // the process is killed
	b := sqlstore.New(s, nil)
	ended := make(chan error)
	for worker := range inFlight {
		go func() {
			for i := 0; ; i++ {
				bill := crashBill(fmt.Sprintf("%s-%d-%d", name, worker, i))
				bill.Once = i%2 == 0
				if _, err := b.Charge(ctx, bill); err != nil {
					ended <- err
					return
				}
				if _, err := os.Stdout.WriteString("delivered\n"); err != nil {
					ended <- err
					return
				}
				if err := b.Settle(ctx, bill, []int64{1, spent}); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	return <-ended
}

func crashBill(call string) budget.Bill {
	bytes := budgettest.Hour("bytes", "k", budget.NoLimit)
	bytes.Amount = reserved
	return budgettest.Bill(call, budgettest.Hour("calls", "k", budget.NoLimit), bytes)
}

// killed runs a process, kills it at a random moment, and returns the number of
// delivered calls.
func killed(t *testing.T, address, name string) (delivered int64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVar+"="+address+"\n"+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	after := rand.Int64N(200)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() != "delivered" {
			t.Fatalf("the process said %q", lines.Text())
		}
		if delivered++; delivered == after+1 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Wait() //nolint:errcheck // it was killed
	if delivered <= after {
		t.Fatalf("the process ended by itself after %d calls", delivered)
	}
	return delivered
}

func used(t *testing.T, s budget.Store, name string) int64 {
	t.Helper()
	list, err := s.Usage(t.Context(), budgettest.Noon.Add(time.Minute), budget.Filter{Budget: name}, 10)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, b := range list {
		sum += b.Used
	}
	return sum
}
