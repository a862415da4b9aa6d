package gate

import "context"

type callerKey struct{}

type caller struct {
	id      *Identity
	capsule string
}

// WithCaller returns a context that tells a part of the gateway which is called
// like a server who calls it, and at the endpoint of which capsule.
func WithCaller(ctx context.Context, id *Identity, capsule string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{id, capsule})
}

// CallerOf returns what [WithCaller] noted; the identity is nil where nobody is
// known.
func CallerOf(ctx context.Context) (id *Identity, capsule string) {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.id, c.capsule
}
