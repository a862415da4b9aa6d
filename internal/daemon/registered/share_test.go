package registered

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Owners who register all that they may do not keep another one from registering a tool:
// where there is no room for all, those who have fewer come first.
func TestOwnersShareTheRoom(t *testing.T) {
	const own = config.MaxTools - 7 // of the operator, so that there is room for seven
	c := &config.Config{}
	c.Toolgate.Tools = make([]declared.Settings, own)
	c.Toolgate.Limits.AddedPerPrincipal = 8
	all := New(Options{Log: slog.New(slog.DiscardHandler), InForce: func() *config.Config { return c }})
	born := time.Now()
	var made []*declared.Settings
	var settings []declared.Settings
	add := func(owner string, n int) {
		for range n {
			born = born.Add(-time.Second) // so that the order of the list is not that of their age
			all.list = append(all.list, tool{record: store.DynamicTool{
				Name: fmt.Sprint(owner, len(all.list)), Owner: store.Owner{Principal: gate.Principal{Subject: owner}.Key()}, CreatedAt: born,
			}})
			settings = append(settings, declared.Settings{Name: all.list[len(all.list)-1].record.Name, Of: "tools__look"})
		}
	}
	served := func() string {
		made = nil
		for i := range settings {
			all.list[i].problem = ""
			made = append(made, &settings[i])
		}
		var names []string
		for _, one := range all.share(c, made, slices.Clone(settings)) {
			names = append(names, one.Name)
		}
		for i := range all.list {
			if left := all.list[i].problem != ""; left == slices.Contains(names, all.list[i].record.Name) {
				t.Errorf("%s is served and has the problem %q", all.list[i].record.Name, all.list[i].problem)
			}
		}
		return strings.Join(names, " ")
	}
	may := func(owner string) bool {
		err := all.withinLimit(c, gate.Principal{Subject: owner}.Key(), "new")
		problem, is := errors.AsType[toolapi.Problem](err)
		if err != nil && (!is || !strings.Contains(problem.Error(), "remove one of yours")) {
			t.Errorf("%s: %v", owner, err)
		}
		return err == nil
	}
	add("a", 5)
	add("b", 2)
	if got := served(); got != "a0 a1 a2 a3 a4 b5 b6" || may("a") || !may("b") || !may("c") {
		t.Errorf("served: %s", got)
	}
	add("c", 1)
	if got := served(); got != "a1 a2 a3 a4 b5 b6 c7" { // a0 is the youngest of a
		t.Errorf("served: %s", got)
	}
	add("d", 4)
	if got := served(); got != "a3 a4 b5 b6 c7 d10 d11" || may("d") || may("c") || !may("e") {
		t.Errorf("served: %s", got)
	}
}
