package registered

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/follow"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/declared"
)

// Options are the parts of a running gateway that the registered tools need. All are
// required.
type Options struct {
	Log   *slog.Logger
	Store *store.DynamicTools
	Keys  *seal.Keyring
	// InForce returns the settings in force with all declared tools.
	InForce func() *config.Config
	// Off returns the files that the programs of a configuration keep off.
	Off func(*config.Config) *build.KeptOff
	// Apply serves the current tools if load reports a change. Calls run one after the
	// other.
	Apply func(ctx context.Context, load func(context.Context) (changed bool, err error)) error
	// Settle waits until what is served is in the catalog.
	Settle func(ctx context.Context)
}

// Tools are the tools that agents have registered. It implements [enable.Tools], and is
// safe for concurrent use. Make it with [New]; [Tools.Run] keeps it up to date with the
// store.
type Tools struct {
	o     Options
	chain atomic.Pointer[gate.Chain] // decides who may register what; nil denies
	rows  *follow.Follower

	mu         sync.Mutex
	list       []tool
	generation int64
}

// tool is a registered tool.
type tool struct {
	record  store.DynamicTool
	of      registration
	problem string // why it is not served; empty if it is
}

// registration is what is sealed of a tool. It names its owner, so that no row can be made
// another owner's.
type registration struct {
	Tenant      string          `json:"tenant"`
	Principal   []byte          `json:"principal"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Template    string          `json:"template"`
	Pin         string          `json:"pin"` // of the template, see [declared.Settings.Pin]
}

// purpose separates the seals of registered tools from all others.
const purpose = seal.Kept + "dynamic tool"

// New returns the registered tools of a gateway, with none loaded yet.
func New(o Options) *Tools {
	t := &Tools{o: o}
	t.rows = follow.New(follow.Options{
		Load: t.Load, Apply: o.Apply, Unserved: t.unserved,
		Late: func(err error) { o.Log.Error("tools that were registered or removed are not served yet", "err", err) },
	})
	return t
}

// Use sets the chain that decides who may register which tools.
func (t *Tools) Use(chain *gate.Chain) { t.chain.Store(chain) }

// StoreChanged reports that the registered tools in the store have changed.
func (t *Tools) StoreChanged() { t.rows.Changed() }

// notServed is the generation while the registered tools could not be served.
const notServed = -1

// Load reads the registered tools and tells whether they have changed. If the store was
// unreachable at the start, there are none until it answers.
func (t *Tools) Load(ctx context.Context) (changed bool, err error) {
	records, generation, err := t.o.Store.List(ctx)
	if errors.Is(err, store.ErrUnreached) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the tools that were registered: %w", err)
	}
	t.mu.Lock()
	same := generation == t.generation
	t.mu.Unlock()
	if same {
		return false, nil // the list keeps what is known of whether its tools are served
	}
	list := make([]tool, len(records))
	for i := range records {
		list[i] = tool{record: records[i], problem: "it is not served yet"}
		if list[i].of, err = t.open(&records[i]); err != nil {
			list[i].problem = err.Error()
			t.o.Log.Warn("a tool that was registered is not served", "tool", records[i].Name, "err", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list, t.generation = list, generation
	return true, nil
}

// open decrypts a record.
func (t *Tools) open(r *store.DynamicTool) (registration, error) {
	var of registration
	data, err := t.o.Keys.Open(purpose, r.Name, string(r.Body))
	if err == nil {
		err = json.Unmarshal(data, &of)
	}
	if err != nil {
		return registration{}, errors.New("it was not registered with a key of this gateway; set the same toolgate.keys on all that share the store")
	}
	if of.Tenant != r.Owner.Tenant || string(of.Principal) != r.Owner.Principal || of.Template != r.Template {
		return registration{}, errors.New("its row in the store is not what was registered")
	}
	return of, nil
}

// Run applies changes by this gateway, and by others that share the store, until the
// context ends.
func (t *Tools) Run(ctx context.Context) error { return t.rows.Run(ctx) }

// unserved records that the loaded tools could not be served.
func (t *Tools) unserved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation = notServed
}

// Beside adds the registered tools to a configuration, whose protected files are off. Those
// that do not fit it are left out, so that no agent keeps a gateway from starting. owners
// are the principals of the namespaces.
func (t *Tools) Beside(c *config.Config, off *build.KeptOff) (owners map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	owners = make(map[string]string)
	var all []declared.Settings
	made := make([]*declared.Settings, len(t.list))
	templates := Templates(c)
	for i := range t.list {
		one := &t.list[i]
		if one.of.Name == "" {
			continue // it could not be opened, which is its problem
		}
		principal := one.record.Owner.Principal
		settings, err := derive(templates, &one.of, principal)
		if owner, known := owners[settings.Namespace]; err == nil && known && owner != principal {
			err = errOthersNamespace
		}
		if one.problem = ""; err != nil {
			t.leaveOut(one, err)
			continue
		}
		owners[settings.Namespace] = principal
		made[i], all = &settings, append(all, settings)
	}
	all = t.share(c, made, all)
	together := tools.FitBeside(c, all, off) == nil
	served := slices.Clone(c.Toolgate.Tools)
	for i := range t.list {
		one := &t.list[i]
		if made[i] == nil {
			continue
		}
		if !together {
			if err := tools.FitBeside(c, []declared.Settings{*made[i]}, off); err != nil {
				t.leaveOut(one, err)
				continue
			}
		}
		served = append(served, *made[i])
	}
	c.Toolgate.Tools = served
	return owners
}

// room is how many registered tools a configuration has room for.
func room(c *config.Config) int {
	own := 0
	for i := range c.Toolgate.Tools {
		if c.Toolgate.Tools[i].Of == "" {
			own++
		}
	}
	return max(0, config.MaxTools-own)
}

// errNoRoom is why a tool is not served although it fits.
var errNoRoom = fmt.Errorf("a gateway serves %d declared and registered tools, and those of owners with fewer tools come first; remove one of yours", config.MaxTools)

// share leaves out the tools for which there is no room, so that no owners crowd out
// another one: the oldest tool of each owner comes first, then the second of each, and so
// on. made has the settings of the tools in the list, all those that are not nil. mu is held.
func (t *Tools) share(c *config.Config, made []*declared.Settings, all []declared.Settings) []declared.Settings {
	room := room(c)
	if len(all) <= room {
		return all
	}
	older := func(a, b int) int { return t.list[a].record.CreatedAt.Compare(t.list[b].record.CreatedAt) }
	var order []int // of tools in the list, by age
	for i := range made {
		if made[i] != nil {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, older)
	turn, has := make([]int, len(made)), map[string]int{}
	for _, i := range order {
		owner := t.list[i].record.Owner.Principal
		has[owner]++
		turn[i] = has[owner]
	}
	slices.SortStableFunc(order, func(a, b int) int { return turn[a] - turn[b] })
	for _, i := range order[room:] {
		t.leaveOut(&t.list[i], errNoRoom)
		made[i] = nil
	}
	all = all[:0]
	for _, settings := range made {
		if settings != nil {
			all = append(all, *settings)
		}
	}
	return all
}

// errOthersNamespace is why a tool is not served whose owner has the namespace of another
// owner. A namespace has 40 bits of a hash, so that somebody who can choose their own name
// can find one like that.
var errOthersNamespace = errors.New("its namespace belongs to the tools of somebody else, whose name has the same hash; ask for another name of the account")

// leaveOut records why a tool is not served. mu is held.
func (t *Tools) leaveOut(one *tool, err error) {
	one.problem = strings.Join(strings.Fields(err.Error()), " ")
	t.o.Log.Warn("a tool that was registered is not served", "tool", one.record.Name, "err", one.problem)
}

// Templates returns the templates of a configuration, by name.
func Templates(c *config.Config) map[string]*declared.Settings {
	out := make(map[string]*declared.Settings)
	for i := range c.Toolgate.Tools {
		if tool := &c.Toolgate.Tools[i]; tool.Template {
			out[tools.Name(tool)] = tool
		}
	}
	return out
}

// derive returns the tool of a registration, if its template is what it was then.
func derive(templates map[string]*declared.Settings, of *registration, principal string) (declared.Settings, error) {
	template := templates[of.Template]
	if template == nil {
		return declared.Settings{}, fmt.Errorf("its template %s is no longer declared", of.Template)
	}
	pin, err := template.Pin()
	if err != nil {
		return declared.Settings{}, err
	}
	if pin != of.Pin {
		return declared.Settings{}, fmt.Errorf("its template %s has changed since it was registered; register it again", of.Template)
	}
	return template.Derive(Namespace(principal), &declared.Definition{Name: of.Name, Description: of.Description, Input: of.InputSchema})
}

// Namespace returns the namespace of the tools of a principal, which does not reveal it.
// Its length differs from those of added servers, so that it is never one of them.
func Namespace(principal string) string {
	sum := sha256.Sum256([]byte("dynamic tools of " + principal))
	return build.DynamicPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:8])
}

// tools returns the registered tools as they were last loaded.
func (t *Tools) tools() []tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}
