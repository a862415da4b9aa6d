package spicedbtest

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// objectID is what SpiceDB takes as an object id, of at most 1024 bytes.
var objectID = regexp.MustCompile(`^[a-zA-Z0-9/_|\-=+]+$`)

// ValidID tells whether SpiceDB takes an object id.
func ValidID(id string) bool { return len(id) <= 1024 && objectID.MatchString(id) }

const (
	maxBulk   = 10_000
	maxWrites = 1000
)

// permissions is the PermissionsService.
type permissions struct {
	v1.UnimplementedPermissionsServiceServer

	s *Server
}

func valid(object *v1.ObjectReference, subject *v1.SubjectReference) error {
	for _, o := range []*v1.ObjectReference{object, subject.GetObject()} {
		if o != nil && !ValidID(o.GetObjectId()) {
			return status.Errorf(codes.InvalidArgument, "invalid ObjectReference.ObjectId: value %q does not match regex pattern", o.GetObjectId())
		}
	}
	return nil
}

// check answers one question.
func (s *Server) check(w world, object *v1.ObjectReference, permission string, subject *v1.SubjectReference, context map[string]any) (verdict, error) {
	if err := s.knows(object.GetObjectType(), permission); err != nil {
		return verdict{}, err
	}
	e := &evaluation{world: w, subject: objectText(subject.GetObject()), context: context, now: time.Now()}
	return e.permission(object.GetObjectType(), object.GetObjectId(), permission), nil
}

func (v verdict) check() (v1.CheckPermissionResponse_Permissionship, *v1.PartialCaveatInfo) {
	switch {
	case v.has:
		return v1.CheckPermissionResponse_PERMISSIONSHIP_HAS_PERMISSION, nil
	case v.conditional():
		return v1.CheckPermissionResponse_PERMISSIONSHIP_CONDITIONAL_PERMISSION, &v1.PartialCaveatInfo{MissingRequiredContext: v.missing}
	}
	return v1.CheckPermissionResponse_PERMISSIONSHIP_NO_PERMISSION, nil
}

func (p *permissions) CheckPermission(_ context.Context, req *v1.CheckPermissionRequest) (*v1.CheckPermissionResponse, error) {
	if err := valid(req.GetResource(), req.GetSubject()); err != nil {
		return nil, err
	}
	w, token, err := p.s.at(req.GetConsistency())
	if err != nil {
		return nil, err
	}
	v, err := p.s.check(w, req.GetResource(), req.GetPermission(), req.GetSubject(), req.GetContext().AsMap())
	if err != nil {
		return nil, err
	}
	res := &v1.CheckPermissionResponse{CheckedAt: &v1.ZedToken{Token: token}}
	res.Permissionship, res.PartialCaveatInfo = v.check()
	return res, nil
}

func (p *permissions) CheckBulkPermissions(_ context.Context, req *v1.CheckBulkPermissionsRequest) (*v1.CheckBulkPermissionsResponse, error) {
	if len(req.GetItems()) > maxBulk {
		return nil, status.Error(codes.InvalidArgument, "too many items")
	}
	for _, i := range req.GetItems() {
		if err := valid(i.GetResource(), i.GetSubject()); err != nil {
			return nil, err // all of them, as SpiceDB does
		}
	}
	w, token, err := p.s.at(req.GetConsistency())
	if err != nil {
		return nil, err
	}
	p.s.mu.Lock()
	fail := p.s.faults.pair
	p.s.mu.Unlock()
	byObject := objects(w)
	res := &v1.CheckBulkPermissionsResponse{CheckedAt: &v1.ZedToken{Token: token}}
	for _, i := range req.GetItems() {
		pair := &v1.CheckBulkPermissionsPair{Request: i}
		v, err := p.s.check(byObject(objectText(i.GetResource())), i.GetResource(), i.GetPermission(), i.GetSubject(), i.GetContext().AsMap())
		if err == nil && fail != nil {
			err = fail(objectText(i.GetResource()))
		}
		if err != nil {
			pair.Response = &v1.CheckBulkPermissionsPair_Error{Error: status.Convert(err).Proto()}
		} else {
			item := &v1.CheckBulkPermissionsResponseItem{}
			item.Permissionship, item.PartialCaveatInfo = v.check()
			pair.Response = &v1.CheckBulkPermissionsPair_Item{Item: item}
		}
		res.Pairs = append(res.Pairs, pair)
	}
	return res, nil
}

func (p *permissions) LookupResources(req *v1.LookupResourcesRequest, stream grpc.ServerStreamingServer[v1.LookupResourcesResponse]) error {
	p.s.seen("LookupResources", req)
	if err := valid(nil, req.GetSubject()); err != nil {
		return err
	}
	w, token, err := p.s.at(req.GetConsistency())
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range w {
		if r.GetResource().GetObjectType() == req.GetResourceObjectType() {
			ids = append(ids, r.GetResource().GetObjectId())
		}
	}
	slices.Sort(ids)
	if err := p.s.knows(req.GetResourceObjectType(), req.GetPermission()); err != nil {
		return err
	}
	byObject := objects(w)
	for _, id := range slices.Compact(ids) {
		e := &evaluation{world: byObject(req.GetResourceObjectType() + ":" + id), subject: objectText(req.GetSubject().GetObject()), context: req.GetContext().AsMap(), now: time.Now()}
		v := e.permission(req.GetResourceObjectType(), id, req.GetPermission())
		res := &v1.LookupResourcesResponse{LookedUpAt: &v1.ZedToken{Token: token}, ResourceObjectId: id}
		switch {
		case v.has:
			res.Permissionship = v1.LookupPermissionship_LOOKUP_PERMISSIONSHIP_HAS_PERMISSION
		case v.conditional():
			res.Permissionship = v1.LookupPermissionship_LOOKUP_PERMISSIONSHIP_CONDITIONAL_PERMISSION
			res.PartialCaveatInfo = &v1.PartialCaveatInfo{MissingRequiredContext: v.missing}
		default:
			continue
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
	p.s.answering(stream.Context(), "LookupResources")
	return nil
}

// objects divides a world by what an evaluation of one object needs: its own
// relationships, and those of servers, teams and tenants.
func objects(w world) func(object string) world {
	shared := world{}
	by := map[string]world{}
	for k, r := range w {
		switch r.GetResource().GetObjectType() {
		case "server", "team", "tenant":
			shared[k] = r
		default:
			o := objectText(r.GetResource())
			if by[o] == nil {
				by[o] = world{}
			}
			by[o][k] = r
		}
	}
	for _, of := range by {
		maps.Copy(of, shared)
	}
	return func(object string) world {
		if of, ok := by[object]; ok {
			return of
		}
		return shared
	}
}

func (p *permissions) ReadRelationships(req *v1.ReadRelationshipsRequest, stream grpc.ServerStreamingServer[v1.ReadRelationshipsResponse]) error {
	w, token, err := p.s.at(req.GetConsistency())
	if err != nil {
		return err
	}
	f := req.GetRelationshipFilter()
	if err := p.s.knows(f.GetResourceType(), f.GetOptionalRelation()); err != nil {
		return err
	}
	for _, r := range w {
		if r.GetResource().GetObjectType() != f.GetResourceType() || r.GetRelation() != f.GetOptionalRelation() {
			continue
		}
		if err := stream.Send(&v1.ReadRelationshipsResponse{ReadAt: &v1.ZedToken{Token: token}, Relationship: r}); err != nil {
			return err
		}
	}
	return nil
}

func (p *permissions) WriteRelationships(_ context.Context, req *v1.WriteRelationshipsRequest) (*v1.WriteRelationshipsResponse, error) {
	if len(req.GetUpdates()) > maxWrites {
		return nil, status.Error(codes.InvalidArgument, "too many updates")
	}
	for _, u := range req.GetUpdates() {
		r := u.GetRelationship()
		if err := valid(r.GetResource(), r.GetSubject()); err != nil {
			return nil, err
		}
		if err := p.s.knows(r.GetResource().GetObjectType(), r.GetRelation()); err != nil {
			return nil, err
		}
	}
	return &v1.WriteRelationshipsResponse{WrittenAt: &v1.ZedToken{Token: p.s.commit(req.GetUpdates(), false)}}, nil
}

// schemas is the SchemaService.
type schemas struct {
	v1.UnimplementedSchemaServiceServer

	s *Server
}

func (x *schemas) ReflectSchema(context.Context, *v1.ReflectSchemaRequest) (*v1.ReflectSchemaResponse, error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if len(x.s.types) == 0 {
		return nil, status.Error(codes.NotFound, "No schema has been defined; please call WriteSchema to start")
	}
	res := &v1.ReflectSchemaResponse{
		ReadAt: &v1.ZedToken{Token: x.s.tokenLocked(len(x.s.revisions) - 1)},
		Caveats: []*v1.ReflectionCaveat{{
			Name:       "business_hours",
			Parameters: []*v1.ReflectionCaveatParameter{{Name: "hour", Type: "int"}, {Name: "from", Type: "int"}, {Name: "to", Type: "int"}},
		}},
	}
	for name, all := range x.s.types {
		d := &v1.ReflectionDefinition{Name: name}
		for _, n := range all {
			if strings.HasSuffix(n, "e") || n == "view" || n == "read" { // execute
				d.Permissions = append(d.Permissions, &v1.ReflectionPermission{Name: n, ParentDefinitionName: name})
			} else {
				d.Relations = append(d.Relations, &v1.ReflectionRelation{Name: n, ParentDefinitionName: name})
			}
		}
		res.Definitions = append(res.Definitions, d)
	}
	return res, nil
}

// watches is the WatchService.
type watches struct {
	v1.UnimplementedWatchServiceServer

	s *Server
}

func (w *watches) Watch(req *v1.WatchRequest, stream grpc.ServerStreamingServer[v1.WatchResponse]) error {
	s := w.s
	s.mu.Lock()
	at, number, err := len(s.revisions)-1, s.faults.watchNumber, error(nil)
	s.faults.opened++
	if c := req.GetOptionalStartCursor(); c != nil {
		if at, err = s.numberLocked(c.GetToken()); err == nil && at < s.oldest {
			err = status.Error(codes.OutOfRange, "the specified start cursor is too old")
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		s.mu.Lock()
		broken, changed, event := s.faults.watchNumber != number, s.changed, s.faults.event
		cause := s.faults.watchBroken
		var next *v1.WatchResponse
		if at+1 < len(s.revisions) {
			at++
			if !s.faults.mute {
				r := s.revisions[at]
				next = &v1.WatchResponse{Updates: r.updates, SchemaUpdated: r.schema, ChangesThrough: &v1.ZedToken{Token: s.tokenLocked(at)}}
			}
			changed = nil // there may be more
		}
		s.mu.Unlock()
		switch {
		case broken:
			return cause
		case next != nil:
			if event != nil {
				event(next.GetChangesThrough().GetToken())
			}
			if err := stream.Send(next); err != nil {
				return err
			}
		case changed != nil:
			select {
			case <-changed:
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
	}
}
