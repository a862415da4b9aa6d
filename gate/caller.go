package gate

import "context"

type callerKey struct{}

type caller struct {
	id      *Identity
	capsule string
}

// WithCaller returns a context with the caller and the capsule of the endpoint, for
// parts of the gateway that are called like servers.
func WithCaller(ctx context.Context, id *Identity, capsule string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{id, capsule})
}

// CallerOf returns the caller and the capsule of [WithCaller]; a nil identity where the
// context has none.
func CallerOf(ctx context.Context) (id *Identity, capsule string) {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.id, c.capsule
}
