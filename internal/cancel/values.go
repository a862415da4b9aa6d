package cancel

import "context"

// values is a context with values over a Context.
type values struct {
	context.Context
	of *Context // with which it ends
}

// AfterFunc is how [context.AfterFunc], and contexts of the library, watch the context.
func (v *values) AfterFunc(f func()) (stop func() bool) { return v.of.AfterFunc(f) }

// WithValues returns a context that is the same as ctx, which has values over a [Context]. What is
// derived from the one returned needs no goroutine. It returns any other ctx as it is.
func WithValues(ctx context.Context) context.Context {
	of, _ := ctx.Value(ownKey{}).(*Context)
	if of == nil || of.Done() != ctx.Done() {
		return ctx
	}
	return &values{ctx, of}
}

// own returns the Context with which a context of this package ends; nil for any other.
func own(ctx context.Context) *Context {
	switch c := ctx.(type) {
	case *Context:
		return c
	case *timed:
		return &c.Context
	case *values:
		return c.of
	}
	return nil
}
