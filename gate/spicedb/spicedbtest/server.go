package spicedbtest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolgate/toolgate/internal/testport"
)

// revision is one state of the relationships and how it came about.
type revision struct {
	world   world
	updates []*v1.RelationshipUpdate
	schema  bool
}

// Server is a SpiceDB in the process. Its methods are safe for concurrent use;
// fields are set before it is started.
type Server struct {
	// Token is the preshared key; empty asks for none.
	Token string

	mu        sync.Mutex
	epoch     int        // tokens of another epoch are not known
	revisions []revision // by number; the first is empty
	oldest    int        // revisions below cannot be watched from any more
	types     map[string][]string
	calls     map[string]int
	changed   chan struct{} // closed at a new revision or when a stream is to look up
	faults    faults
	live      *grpc.Server
	addr      string
}

// NewServer returns a server with [Schema] and no relationships.
func NewServer() *Server {
	s := &Server{revisions: []revision{{world: world{}}}, changed: make(chan struct{}), calls: map[string]int{}}
	member := []string{"member"}
	object := []string{"server", "owner", "executor", "banned", "execute"}
	s.types = map[string][]string{
		"user": nil, "team": member, "tenant": {"admin", "member"},
		"server": {"tenant", "executor", "execute"},
		"tool":   object, "prompt": object,
		"resource": {"server", "owner", "reader", "banned", "read"},
	}
	return s
}

// Start serves on a loopback port until the test ends and returns the address.
// A server that was stopped is started on the port that it had.
func (s *Server) Start(tb testing.TB) string {
	tb.Helper()
	s.mu.Lock()
	addr := s.addr
	s.mu.Unlock()
	fresh := addr == ""
	var lis net.Listener
	var err error
	for range 5 { // another program may take a fresh port first
		if fresh {
			addr = testport.Address(tb) // nobody else is given it once the server has stopped
		}
		if lis, err = (&net.ListenConfig{}).Listen(tb.Context(), "tcp", addr); err == nil || !fresh {
			break
		}
	}
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	s.mu.Lock()
	s.addr = lis.Addr().String()
	s.mu.Unlock()
	s.Serve(tb, lis)
	return lis.Addr().String()
}

// Serve serves on a listener until the test ends or Stop is called.
func (s *Server) Serve(tb testing.TB, lis net.Listener) {
	g := grpc.NewServer(grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	v1.RegisterPermissionsServiceServer(g, &permissions{s: s})
	v1.RegisterSchemaServiceServer(g, &schemas{s: s})
	v1.RegisterWatchServiceServer(g, &watches{s: s})
	s.mu.Lock()
	s.live = g
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(lis)
	}()
	tb.Cleanup(func() {
		g.Stop()
		<-done
	})
}

// Stop ends the server at once, as a crash does.
func (s *Server) Stop() {
	s.mu.Lock()
	g := s.live
	s.mu.Unlock()
	if g != nil {
		g.Stop()
	}
}

// Write writes relationships as zed writes them and returns the ZedToken.
func (s *Server) Write(tb testing.TB, relationships ...string) string {
	tb.Helper()
	return s.change(tb, v1.RelationshipUpdate_OPERATION_TOUCH, nil, relationships)
}

// WriteUntil writes relationships that expire, of which no event tells.
func (s *Server) WriteUntil(tb testing.TB, end time.Time, relationships ...string) string {
	tb.Helper()
	return s.change(tb, v1.RelationshipUpdate_OPERATION_TOUCH, timestamppb.New(end), relationships)
}

// Delete deletes relationships and returns the ZedToken.
func (s *Server) Delete(tb testing.TB, relationships ...string) string {
	tb.Helper()
	return s.change(tb, v1.RelationshipUpdate_OPERATION_DELETE, nil, relationships)
}

func (s *Server) change(tb testing.TB, op v1.RelationshipUpdate_Operation, end *timestamppb.Timestamp, texts []string) string {
	tb.Helper()
	var updates []*v1.RelationshipUpdate
	for _, text := range texts {
		r, err := Relationship(text)
		if err != nil {
			tb.Fatal(err)
		}
		r.OptionalExpiresAt = end
		updates = append(updates, &v1.RelationshipUpdate{Operation: op, Relationship: r})
	}
	return s.commit(updates, false)
}

// commit makes the next revision and returns its token.
func (s *Server) commit(updates []*v1.RelationshipUpdate, schema bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.revisions[len(s.revisions)-1].world)
	for _, u := range updates {
		if u.GetOperation() == v1.RelationshipUpdate_OPERATION_DELETE {
			delete(next, key(u.GetRelationship()))
			continue
		}
		next[key(u.GetRelationship())] = proto.CloneOf(u.GetRelationship())
	}
	s.revisions = append(s.revisions, revision{next, updates, schema})
	s.wakeLocked()
	return s.tokenLocked(len(s.revisions) - 1)
}

// SetType gives a type other permissions and relations; nil names take the
// type away.
func (s *Server) SetType(name string, permissions []string) {
	s.mu.Lock()
	if permissions == nil {
		delete(s.types, name)
	} else {
		s.types[name] = permissions
	}
	s.mu.Unlock()
	s.commit(nil, true)
}

// Reset forgets every token that was given out, as another datastore would.
// Relationships stay.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.revisions = []revision{{world: s.revisions[len(s.revisions)-1].world}}
	s.oldest = 0
}

// Collect makes every revision but the newest too old to watch from.
func (s *Server) Collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = len(s.revisions) - 1
}

// Calls returns how often a method was called, such as "CheckPermission".
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

func (s *Server) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) tokenLocked(n int) string { return fmt.Sprintf("zed%d.%d", s.epoch, n) }

// numberLocked is the revision of a token.
func (s *Server) numberLocked(token string) (int, error) {
	epoch, number, ok := strings.Cut(strings.TrimPrefix(token, "zed"), ".")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || epoch != strconv.Itoa(s.epoch) || n < 0 || n >= len(s.revisions) {
		return 0, status.Errorf(codes.InvalidArgument, "invalid revision: the token %q is not one of this datastore", token)
	}
	return n, nil
}

// at returns the world that a question is answered from.
func (s *Server) at(c *v1.Consistency) (world, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := len(s.revisions) - 1
	n := head
	if s.faults.lag > 0 && !c.GetFullyConsistent() {
		n = max(0, head-s.faults.lag)
		if t := c.GetAtLeastAsFresh(); t != nil {
			least, err := s.numberLocked(t.GetToken())
			if err != nil {
				return nil, "", err
			}
			n = max(n, least)
		}
	} else if t := c.GetAtLeastAsFresh(); t != nil {
		if _, err := s.numberLocked(t.GetToken()); err != nil {
			return nil, "", err
		}
	}
	return s.revisions[n].world, s.tokenLocked(n), nil
}

// knows tells whether the schema has a type and a permission of it.
func (s *Server) knows(kind, permission string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, ok := s.types[kind]
	if !ok {
		return undefined(kind)
	}
	if slices.Contains(names, permission) {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "relation/permission `%s` not found under definition `%s`", permission, kind)
}

// undefined is the error about a type that the schema does not define.
func undefined(kind string) error {
	s := status.Newf(codes.FailedPrecondition, "object definition `%s` not found", kind)
	s, err := s.WithDetails(&errdetails.ErrorInfo{
		Reason: v1.ErrorReason_ERROR_REASON_UNKNOWN_DEFINITION.String(), Domain: "authzed.com",
		Metadata: map[string]string{"definition_name": kind},
	})
	if err != nil {
		return err
	}
	return s.Err()
}

// admit counts a call and lets the faults have it.
func (s *Server) admit(ctx context.Context, full string) (method string, err error) {
	method = full[strings.LastIndexByte(full, '/')+1:]
	s.mu.Lock()
	s.calls[method]++
	before := s.faults.before
	s.mu.Unlock()
	if s.Token != "" {
		md, _ := metadata.FromIncomingContext(ctx)
		if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+s.Token {
			return method, status.Error(codes.PermissionDenied, "invalid preshared key: invalid token")
		}
	}
	if before != nil {
		return method, before(ctx, method)
	}
	return method, nil
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method, err := s.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	s.seen(method, req)
	res, err := handler(ctx, req)
	s.answering(ctx, method)
	return res, err
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if _, err := s.admit(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handler(srv, stream)
}
