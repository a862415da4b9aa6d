package mcp

import (
	"cmp"
	"slices"

	"github.com/toolgate/toolgate/internal/arena"
)

// Edit replaces the bytes of a span with new ones.
type Edit struct {
	Span
	New []byte
}

// Splice returns raw with the edits applied, in new memory; all other bytes are kept.
// Splice sorts the edits. They must not overlap; at one position, insertions come
// first.
func Splice(raw []byte, edits ...Edit) []byte {
	slices.SortStableFunc(edits, func(a, b Edit) int {
		return cmp.Or(a.Start-b.Start, a.End-b.End)
	})
	n := len(raw)
	for _, e := range edits {
		n += len(e.New) - (e.End - e.Start)
	}
	out := make([]byte, 0, n)
	at := 0
	for _, e := range edits {
		out = append(out, raw[at:e.Start]...)
		out = append(out, e.New...)
		at = e.End
	}
	return append(out, raw[at:]...)
}

// SetMember returns the object with the member set to value: replaced in place, or put
// first if it is new. A nil object counts as an empty one.
func SetMember(object []byte, key string, value []byte) []byte {
	if at := LookupSpan(object, key); !at.Absent() {
		return Splice(object, Edit{at, value})
	}
	return insertFirst(object, append(AppendQuote(nil, key), ':'), value)
}

// insertFirst returns the object with the text of members, in parts, put before its own.
func insertFirst(object []byte, members ...[]byte) []byte {
	return appendFirst(make([]byte, 0, len(object)+size(members)+len("{},")), object, members...)
}

// appendFirst appends what insertFirst returns.
func appendFirst(out, object []byte, members ...[]byte) []byte {
	i := skipSpace(object, 0)
	if i >= len(object) {
		i, object = 0, []byte("{}")
	}
	out = append(out, object[:i+1]...)
	for _, part := range members {
		out = append(out, part...)
	}
	if j := skipSpace(object, i+1); j < len(object) && object[j] != '}' {
		out = append(out, ',')
	}
	return append(out, object[i+1:]...)
}

func size(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// RemoveMember returns the object without the member and its comma, or the same bytes
// if there is no such member.
func RemoveMember(object []byte, key string) []byte {
	previous := Span{}
	for m := range Members(object) {
		if keyIs(object[m.KeyText.Start:m.KeyText.End], key) {
			return cutMember(object, previous, m.All)
		}
		previous = m.All
	}
	return object
}

// cutMember returns the object without a member. previous is absent for the first
// member.
func cutMember(object []byte, previous, m Span) []byte {
	return Splice(object, cut(object, previous, m))
}

// cut is the edit of cutMember.
func cut(object []byte, previous, m Span) Edit {
	if !previous.Absent() {
		return Edit{Span{previous.End, m.End}, nil}
	}
	if i := skipSpace(object, m.End); object[i] == ',' { // the first goes with the comma after it
		return Edit{Span{m.Start, skipSpace(object, i+1)}, nil}
	}
	return Edit{m, nil}
}

// HopKey reports whether a member of _meta belongs to one hop and must not be
// forwarded: the protocol's own keys, the progress token, and the gateway's keys (see
// [GatewayPrefix]).
func HopKey(key string) bool { return hopKey([]byte(key)) }

func hopKey(key []byte) bool {
	return string(key) == MetaProgressToken || hasPrefix(key, MetaPrefix) || gatewayKey(key)
}

func gatewayKey(key []byte) bool { return hasPrefix(key, GatewayPrefix) }

// WithoutGatewayMeta removes the gateway's keys from the _meta of an object. All other
// members keep their bytes.
func WithoutGatewayMeta(object []byte) []byte { return rewriteMeta(object, nil, gatewayKey) }

// RewriteMeta removes every hop key (see [HopKey]) from the _meta of params or a
// result, and adds add, the text of members without braces, such as
// `"progressToken":7`. All other members keep their bytes. An empty _meta is removed. A
// _meta that is not an object is kept, or replaced by add. A nil object counts as an
// empty one.
func RewriteMeta(object, add []byte) []byte { return rewriteMeta(object, add, hopKey) }

func rewriteMeta(object, add []byte, drop func(key []byte) bool) []byte {
	edit, found, same := metaEdit(object, add, drop)
	switch {
	case !found:
		return AddMeta(nil, object, add)
	case same:
		return object
	}
	return Splice(object, edit)
}

// metaEdit is what rewriteMeta makes of a _meta, and whether there is one and it stays the same.
func metaEdit(object, add []byte, drop func(key []byte) bool) (edit Edit, found, same bool) {
	previous := Span{}
	for m := range Members(object) {
		if keyIs(object[m.KeyText.Start:m.KeyText.End], "_meta") {
			meta, same := rewritten(m.Value.Of(object), add, drop)
			if meta == nil && !same {
				return cut(object, previous, m.All), true, false
			}
			return Edit{m.Value, meta}, true, same
		}
		previous = m.All
	}
	return Edit{}, false, false
}

// Forwarded returns what [RewriteMeta] returns, without anything to add, for an object in which
// a member is set as [SetMember] does.
func Forwarded(object []byte, key string, value []byte) []byte {
	at := LookupSpan(object, key)
	meta, found, same := metaEdit(object, nil, hopKey)
	if at.Absent() || !found || same || key == "_meta" {
		return RewriteMeta(SetMember(object, key, value), nil)
	}
	return Splice(object, Edit{at, value}, meta)
}

// appendWithMeta appends what [RewriteMeta] returns for params and add, which is not empty.
func appendWithMeta(dst, params, add []byte) []byte {
	if !LookupSpan(params, "_meta").Absent() {
		return append(dst, RewriteMeta(params, add)...)
	}
	return appendFirst(dst, params, metaStart, add, metaEnd)
}

// AddMeta is [RewriteMeta] for an object that is known to have no _meta. If the object lies in
// the memory of an arena, the bytes before it are overwritten, and so is its first one, which
// saves a copy.
func AddMeta(memory *arena.Arena, object, add []byte) []byte {
	if len(add) == 0 {
		return object
	}
	if out := insertBefore(memory, object, metaStart, add, metaEnd); out != nil {
		return out
	}
	return insertFirst(object, metaStart, add, metaEnd)
}

var metaStart, metaEnd = []byte(`"_meta":{`), []byte("}")

// insertBefore is insertFirst that grows an object to the front in the memory that it lies
// in. It is nil where it lies elsewhere or has no members.
func insertBefore(memory *arena.Arena, object []byte, members ...[]byte) []byte {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	if i := skipSpace(object, 1); i >= len(object) || object[i] == '}' {
		return nil
	}
	out := memory.Extend(object, size(members)+1, 0)
	if out == nil {
		return nil
	}
	out[0] = '{'
	at := 1
	for _, part := range members {
		at += copy(out[at:], part)
	}
	out[at] = ','
	return out
}

// rewritten returns a _meta without the dropped keys and with add, nil when nothing is
// left, and whether it is unchanged.
func rewritten(old, add []byte, drop func(key []byte) bool) (meta []byte, same bool) {
	var kept []byte
	dropped := false
	for m := range Members(old) {
		if drop(unescaped(old[m.KeyText.Start:m.KeyText.End])) {
			dropped = true
			continue
		}
		if kept == nil {
			kept = append(make([]byte, 0, len(old)+len(add)+3), '{')
		} else {
			kept = append(kept, ',')
		}
		kept = append(kept, m.All.Of(old)...)
	}
	switch {
	case !dropped && len(add) == 0:
		return old, true
	case kept == nil && len(add) == 0:
		return nil, false
	case kept == nil:
		kept = append(make([]byte, 0, len(add)+2), '{')
	case len(add) > 0:
		kept = append(kept, ',')
	}
	return append(append(kept, add...), '}'), false
}
