package http1

import (
	"net/http"
	"net/url"
	"sync"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/httpfield"
)

// requestMemory is the memory of a request but for its context, which is that of its exchange. A later
// request uses it if the handler has said by ReleaseRequest that nobody else does.
type requestMemory struct {
	ctx    cancel.Slot
	http   *http.Request
	fields httpfield.Memory
	to     url.URL
}

// requests are those that were released.
var requests = sync.Pool{New: func() any {
	r := new(requestMemory)
	r.http = new(http.Request).WithContext(&r.ctx) // the only way to set one
	return r
}}

// begin makes the request of a head.
func (r *requestMemory) begin(ctx *cancel.Context, c *conn, h *head) *http.Request {
	r.ctx.Context, r.to = ctx, *c.to
	in := r.http
	in.Method, in.URL, in.Proto, in.ProtoMajor, in.ProtoMinor = h.method, &r.to, "HTTP/1.1", 1, 1
	in.Header, in.Body, in.ContentLength = h.header, http.NoBody, h.length
	in.Host, in.RemoteAddr, in.RequestURI, in.Close = h.host, c.remote, h.target, h.closes
	return in
}

// release gives the memory to a later request, unless a handler has set what nobody else can take
// away again, or what is not set here.
func (r *requestMemory) release() {
	in := r.http
	if in.Pattern != "" || in.Form != nil || in.PostForm != nil || in.MultipartForm != nil || in.Trailer != nil ||
		in.TransferEncoding != nil || in.GetBody != nil || in.TLS != nil || in.Response != nil || in.Context() != &r.ctx {
		return
	}
	in.Method, in.URL, in.Header, in.Body, in.Host, in.RemoteAddr, in.RequestURI = "", nil, nil, nil, "", "", ""
	r.ctx.Context, r.to = nil, url.URL{}
	r.fields.Clear()
	requests.Put(r)
}

// ReleaseRequest says that nobody uses the request, its header, its URL or its context once the
// handler has returned. Contexts that were derived from what [cancel.Inner] returns for its
// context may be used.
func (w *response) ReleaseRequest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released = true
}
