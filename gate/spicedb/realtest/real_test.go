package realtest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"
	"github.com/authzed/spicedb/pkg/cmd/datastore"
	"github.com/authzed/spicedb/pkg/cmd/server"
	"github.com/authzed/spicedb/pkg/cmd/util"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/mcp"
)

const token = "a preshared key"

// real is a SpiceDB with a memory datastore on a Unix socket.
type real struct {
	endpoint string
	api      *authzed.Client
}

// serve starts a SpiceDB that ends with the test.
func serve(t *testing.T) *real {
	t.Helper()
	dir, err := os.MkdirTemp("", "sdb") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(context.Background()) // it ends in the cleanup, after the phase
	ds, err := datastore.NewDatastore(ctx, datastore.DefaultDatastoreConfig().ToOption(), datastore.WithRequestHedgingEnabled(false))
	if err != nil {
		t.Fatal(err)
	}
	off := server.CacheConfig{Enabled: false}
	srv, err := server.NewConfigWithOptionsAndDefaults(
		server.WithGRPCServer(util.GRPCServerConfig{Network: "unix", Address: socket, Enabled: true}),
		server.WithPresharedSecureKey(token),
		server.WithHTTPGateway(util.HTTPServerConfig{HTTPEnabled: false}),
		server.WithMetricsAPI(util.HTTPServerConfig{HTTPEnabled: false}),
		server.WithTelemetryEndpoint(""),
		server.WithSilentlyDisableTelemetry(true),
		server.WithDispatchCacheConfig(off),
		server.WithNamespaceCacheConfig(off),
		server.WithClusterDispatchCacheConfig(off),
		server.WithDatastore(ds),
	).Complete(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	r := &real{endpoint: "unix://" + socket}
	r.api, err = authzed.NewClient(r.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.api.Close()
		cancel()
		<-ended
	})
	if !spicedbtest.Eventually(t.Context(), func() bool {
		_, err := r.api.WriteSchema(r.context(t), &v1.WriteSchemaRequest{Schema: spicedbtest.Schema})
		return err == nil
	}) {
		t.Fatal("the server does not take the schema")
	}
	return r
}

func (r *real) context(tb testing.TB) context.Context {
	return metadata.AppendToOutgoingContext(tb.Context(), "authorization", "Bearer "+token)
}

func (r *real) change(tb testing.TB, op v1.RelationshipUpdate_Operation, texts []string) {
	tb.Helper()
	req := &v1.WriteRelationshipsRequest{}
	for _, text := range texts {
		rel, err := spicedbtest.Relationship(text)
		if err != nil {
			tb.Fatal(err)
		}
		req.Updates = append(req.Updates, &v1.RelationshipUpdate{Operation: op, Relationship: rel})
	}
	if _, err := r.api.WriteRelationships(r.context(tb), req); err != nil {
		tb.Fatalf("write %v: %v", texts, err)
	}
}

func (r *real) write(tb testing.TB, texts ...string) {
	tb.Helper()
	r.change(tb, v1.RelationshipUpdate_OPERATION_TOUCH, texts)
}

func (r *real) remove(tb testing.TB, texts ...string) {
	tb.Helper()
	r.change(tb, v1.RelationshipUpdate_OPERATION_DELETE, texts)
}

// phase runs a phase for the server until the test ends.
func (r *real) phase(t *testing.T, o spicedb.Options) *spicedb.Phase {
	t.Helper()
	o.Endpoint = r.endpoint
	o.CallTimeout, o.ListTimeout = spicedbtest.Soon, spicedbtest.Soon // a busy machine is not what is tested
	if o.Token == "" {
		o.Token = token
	}
	p, err := spicedb.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // it ends in the cleanup
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func watching(t *testing.T, p *spicedb.Phase) {
	t.Helper()
	if !spicedbtest.Eventually(t.Context(), func() bool { return p.Status().Watching }) {
		t.Fatalf("it does not watch: %+v", p.Status())
	}
}

func TestContract(t *testing.T) {
	spicedbtest.Run(t, func(t *testing.T) spicedbtest.Backend {
		r := serve(t)
		p := r.phase(t, spicedb.Options{})
		watching(t, p)
		return spicedbtest.Backend{Phase: p, Write: r.write, Delete: r.remove, Caveats: true}
	})
}

func TestContractStrict(t *testing.T) {
	spicedbtest.Run(t, func(t *testing.T) spicedbtest.Backend {
		r := serve(t)
		return spicedbtest.Backend{Phase: r.phase(t, spicedb.Options{Strict: true}), Write: r.write, Delete: r.remove, Caveats: true}
	})
}

// A revocation is seen within the promise while callers keep the cache warm.
func TestRevocationIsSeenSoon(t *testing.T) {
	r := serve(t)
	p := r.phase(t, spicedb.Options{})
	watching(t, p)
	var worst time.Duration
	call := spicedbtest.Tool("search", "alice")
	effect := func() gate.Effect {
		d, err := p.Check(t.Context(), &call)
		if err != nil {
			t.Fatal(err)
		}
		return d.Effect
	}
	for range 20 {
		r.write(t, "tool:search#executor@user:alice")
		if !spicedbtest.Eventually(t.Context(), func() bool { return effect() == gate.Allow }) {
			t.Fatal("the grant is not seen")
		}
		r.remove(t, "tool:search#executor@user:alice")
		start := time.Now()
		for effect() == gate.Allow {
			if time.Since(start) > spicedbtest.Soon {
				t.Fatal("the revocation is not seen")
			}
		}
		worst = max(worst, time.Since(start))
	}
	t.Logf("slowest revocation: %v", worst)
	if worst > 500*time.Millisecond {
		t.Errorf("a revocation took %v", worst)
	}
}

func TestSync(t *testing.T) {
	r := serve(t)
	p := r.phase(t, spicedb.Options{})
	watching(t, p)
	r.write(t, "server:gh#executor@user:alice", "tool:moved#server@server:files")
	all := []spicedb.Capability{
		{Kind: mcp.Tool, Server: "gh", Original: "search", Exposed: "search"},
		{Kind: mcp.Tool, Server: "gh", Original: "a.b", Exposed: "a.b"},
		{Kind: mcp.Tool, Server: "gh", Original: "moved", Exposed: "moved"},
		{Kind: mcp.Resource, Server: "gh", Original: "file:///x", Exposed: "file:///x"},
	}
	report, err := p.Sync(t.Context(), all)
	if err != nil || len(report.Written) != 4 || len(report.Elsewhere) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, name := range []string{"search", "a.b"} {
		call := spicedbtest.Tool(name, "alice")
		if d, err := p.Check(t.Context(), &call); err != nil || d.Effect != gate.Allow {
			t.Errorf("right after the write: %s %v %v", name, d.Effect, err)
		}
	}
	if report, err = p.Sync(t.Context(), all); err != nil || report.Kept != 4 || len(report.Written) != 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
}

func TestDiagnose(t *testing.T) {
	r := serve(t)
	p := r.phase(t, spicedb.Options{})
	if problems := p.Diagnose(t.Context()); problems != nil {
		t.Errorf("a good server has problems: %v", problems)
	}
	other := r.phase(t, spicedb.Options{Mapping: spicedb.Mapping{Object: "gadget", ViewPermission: "view"}})
	text := ""
	for _, problem := range other.Diagnose(t.Context()) {
		text += problem.String() + "\n"
	}
	for _, want := range []string{"no type gadget", "prompt has no permission view", "resource has no permission view"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not among the problems:\n%s", want, text)
		}
	}
}

// The reasons are those of the real server's codes.
func TestMisconfigured(t *testing.T) {
	r := serve(t)
	call := spicedbtest.Tool("search", "alice")
	for name, o := range map[string]spicedb.Options{
		"token":      {Token: "another"},
		"type":       {Mapping: spicedb.Mapping{Object: "gadget"}},
		"permission": {Mapping: spicedb.Mapping{Permission: "perform"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := r.phase(t, o)
			d, err := p.Check(t.Context(), &call)
			if err == nil || d.Effect != gate.Deny || d.Reason != spicedb.ReasonMisconfigured {
				t.Errorf("decision %+v, error %v", d, err)
			}
			if !spicedbtest.Eventually(t.Context(), func() bool { return p.Status().Reason == spicedb.ReasonMisconfigured }) {
				t.Errorf("status %+v", p.Status())
			}
		})
	}
}

// One question that cannot be answered does not take a list with it.
func TestUnknownTypeInAList(t *testing.T) {
	r := serve(t)
	p := r.phase(t, spicedb.Options{Mapping: spicedb.Mapping{Prompt: "recipe"}})
	r.write(t, "tool:search#executor@user:alice")
	list := []gate.Request{spicedbtest.Tool("search", "alice"), spicedbtest.Tool("search", "alice"), spicedbtest.Tool("other", "alice")}
	list[1].Kind = mcp.Prompt
	all, err := p.CheckAll(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Effect != gate.Allow || all[1].Err == nil || all[1].Effect != gate.Deny || all[2].Effect != gate.Deny || all[2].Err != nil {
		t.Errorf("decisions %+v", all)
	}
}
