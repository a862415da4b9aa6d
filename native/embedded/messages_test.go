package embedded

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/toolgate/toolgate/native/handshake"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/toolapi"
)

func decoded[T pb.Message](t *testing.T, raw []byte, into T) T {
	t.Helper()
	if err := pb.Unmarshal(raw, into); err != nil {
		t.Fatalf("%x: %v", raw, err)
	}
	return into
}

func same(t *testing.T, want, got pb.Message) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestHandshakeIsThatOfTheProtocol(t *testing.T) {
	if handshake.CookieKey != proto.CookieKey || handshake.CookieValue != proto.CookieValue || handshake.Line[2]-'0' != proto.Version {
		t.Error("they differ")
	}
}

func TestTools(t *testing.T) {
	tools := []toolapi.Tool{
		{
			Name: "a", Title: "A", Description: "é", Input: json.RawMessage(`{}`), Output: json.RawMessage(`{"a":1}`), ReadOnly: true,
			Category: "c", Risk: toolapi.Medium, Timeout: 90 * time.Second, RatePerHour: math.MaxInt, Queue: true,
		},
		{},
	}
	want := &proto.ListToolsResponse{Tools: []*proto.Tool{
		{
			Name: "a", Title: "A", Description: "é", InputSchemaJson: []byte(`{}`), OutputSchemaJson: []byte(`{"a":1}`),
			AnnotationsJson: []byte(`{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}`),
			Category:        "c", Risk: "medium", TimeoutMs: 90000, RatePerHour: math.MaxInt32, Queue: true,
		},
		{AnnotationsJson: []byte(`{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}`)},
	}}
	same(t, want, decoded(t, appendTools(nil, tools), &proto.ListToolsResponse{}))
	same(t, &proto.InitResponse{Name: "n", Layers: []string{"x", ""}}, decoded(t, appendHello(nil, "n", []string{"x", ""}), &proto.InitResponse{}))
}

// What this package writes, the generated code reads as it was meant.
func FuzzEvents(f *testing.F) {
	f.Add("info", "logger", []byte(`"x"`), 1.5, math.Inf(1), true)
	f.Add("", "", []byte(nil), 0.0, math.Copysign(0, -1), false)
	f.Fuzz(func(t *testing.T, a, b string, raw []byte, x, y float64, is bool) {
		if !pb.Equal(decodedOr(appendProgress(nil, x, y, a)), decodedOr(marshal(t, &proto.CallEvent{Event: &proto.CallEvent_Progress{Progress: &proto.Progress{Done: x, Total: y, Message: a}}}))) {
			t.Error("progress")
		}
		if !pb.Equal(decodedOr(appendLog(nil, a, b, raw)), decodedOr(marshal(t, &proto.CallEvent{Event: &proto.CallEvent_Log{Log: &proto.Log{Level: a, Logger: b, DataJson: raw}}}))) {
			t.Error("log")
		}
		event := appendResult(nil, &toolapi.Result{IsError: is, Content: raw, Text: a, Structured: raw})
		if !isResult(event) {
			t.Error("a result is not seen as one")
		}
		if !pb.Equal(decodedOr(event), decodedOr(marshal(t, &proto.CallEvent{Event: &proto.CallEvent_Result{Result: &proto.Result{IsError: is, ContentJson: raw, Text: a, StructuredJson: raw}}}))) {
			t.Error("result")
		}
	})
}

// decodedOr is an event, or an empty one where the text in it is not UTF-8.
func decodedOr(raw []byte) *proto.CallEvent {
	e := &proto.CallEvent{}
	if pb.Unmarshal(raw, e) != nil {
		return &proto.CallEvent{}
	}
	return e
}

func marshal(t *testing.T, m pb.Message) []byte {
	t.Helper()
	raw, err := pb.Marshal(m)
	if err != nil {
		return nil // the text is not UTF-8
	}
	return raw
}

// What is not a message is an error and no more; what the generated code reads is
// read alike.
func FuzzRequests(f *testing.F) {
	for _, m := range []pb.Message{
		&proto.CallRequest{Name: "n", ArgumentsJson: []byte(`{"a":1}`), CallId: "c"}, &proto.InitRequest{ConfigJson: []byte("{}"), HostVersion: "1"},
		&proto.Tool{TimeoutMs: -1, RatePerHour: 7}, &proto.Progress{Done: 1},
	} {
		raw, err := pb.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := readCall(raw)
		want := &proto.CallRequest{}
		if pb.Unmarshal(raw, want) != nil {
			return // it may be stricter, and is of nobody but the gateway
		}
		if len(want.ProtoReflect().GetUnknown()) > 0 {
			return
		}
		if err != nil || got.name != want.GetName() || string(got.arguments) != string(want.GetArgumentsJson()) || got.id != want.GetCallId() {
			t.Errorf("%+v, %v; want %v", got, err, want)
		}
	})
}
