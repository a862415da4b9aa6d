package feedback_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/toolgate/toolgate/internal/feedback"
)

var sample = feedback.Event{
	ID: "a-1", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Tool: "gh__search", Server: "gh", ErrorClass: "budget",
	DurationMS: 1.5, ArgsHash: "ab", ResponseSize: 7, Tenant: "acme", PersonaID: "bot", SessionID: "s", TraceID: "t",
}

const sampleJSON = `{"id":"a-1","time":"2026-01-02T03:04:05Z","tool":"gh__search","server":"gh","success":false,"error_class":"budget",` +
	`"duration_ms":1.5,"args_hash":"ab","response_size":7,"tenant":"acme","persona_id":"bot","session_id":"s","trace_id":"t"}`

// An event in the format of a context service has the members of that service alone.
func TestContextFeedback(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(body)
	}))
	defer server.Close()
	feeds, err := (&feedback.Settings{Webhook: server.URL, Secret: "0123456789abcdef0123456789abcdef", Format: feedback.FormatContext}).Feeds(nil)
	if err != nil || len(feeds) != 1 {
		t.Fatalf("%d feeds, %v", len(feeds), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- feeds[0].Run(ctx) }()
	feeds[0].Tell(&sample)
	var body struct{ Data []json.RawMessage }
	if err := json.Unmarshal([]byte(<-got), &body); err != nil || len(body.Data) != 1 {
		t.Fatalf("%d events, %v", len(body.Data), err)
	}
	const want = `{"tool_name":"gh__search","success":false,"duration_ms":1.5,"args_hash":"sha256:ab","response_size":7,"tenant":"acme","persona_id":"bot"}`
	if string(body.Data[0]) != want {
		t.Errorf("got  %s\nwant %s", body.Data[0], want)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A post is signed as Standard Webhooks say, here by other code.
func TestWebhook(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"
	for _, secret := range []string{key, "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))} {
		got := make(chan string, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)))
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("Webhook-Signature") != want || r.Header.Get("Webhook-Id") != "msg_1" {
				t.Errorf("%v: %v, want the signature %s", err, r.Header, want)
			}
			got <- string(body)
		}))
		hook, err := feedback.NewWebhook(server.URL, secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := hook.Send(t.Context(), "msg_1", []feedback.Event{sample}); err != nil {
			t.Error(err)
		}
		var body struct {
			Type string
			Data []json.RawMessage
		}
		if err := json.Unmarshal([]byte(<-got), &body); err != nil || body.Type != "tool.executions" || len(body.Data) != 1 || string(body.Data[0]) != sampleJSON {
			t.Errorf("%v: %+v", err, body)
		}
		hook.Close()
		server.Close()
	}
	for _, secret := range []string{"", "short", "whsec_", "whsec_not Base64!"} {
		if _, err := feedback.NewWebhook("http://127.0.0.1:1", secret); err == nil {
			t.Errorf("the secret %q is taken", secret)
		}
	}
}

func TestWebhookAnswers(t *testing.T) {
	for status, want := range map[int]string{200: "", 204: "", 302: "final", 400: "final", 401: "final", 408: "again", 410: "final", 429: "again", 500: "again", 503: "again"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}))
		hook, err := feedback.NewWebhook(server.URL, strings.Repeat("k", 32))
		if err != nil {
			t.Fatal(err)
		}
		err = hook.Send(t.Context(), "msg_1", nil)
		got := ""
		if _, final := errors.AsType[*feedback.FinalError](err); final {
			got = "final"
		} else if err != nil {
			got = "again"
		}
		if got != want {
			t.Errorf("%d: %v", status, err)
		}
		hook.Close()
		server.Close()
	}
}

// An event reaches a topic of a broker as JSON under its tenant, with SASL and
// without; a wrong password is an error.
func TestKafka(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"", "scram-sha-256", "scram-sha-512", "plain"} {
		options := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "tool.executions")}
		if mechanism != "" {
			options = append(options, kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(mechanism), "toolgate", "password"), kfake.Superuser("SCRAM-SHA-256", "reader", "reader"))
		}
		cluster, err := kfake.NewCluster(options...)
		if err != nil {
			t.Fatal(err)
		}
		o := feedback.KafkaSettings{Brokers: cluster.ListenAddrs(), Topic: "tool.executions", SASL: feedback.SASL{Mechanism: mechanism, User: "toolgate", Password: "password"}}
		kafka, err := feedback.NewKafka(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := kafka.Send(t.Context(), "", []feedback.Event{sample, sample}); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		kafka.Close()
		if mechanism != "" {
			o.SASL.Password = "wrong"
			wrong, err := feedback.NewKafka(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := wrong.Send(ctx, "", []feedback.Event{sample}); err == nil {
				t.Errorf("%s: a wrong password writes", mechanism)
			}
			cancel()
			wrong.Close()
		}
		reading := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("tool.executions"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
		if mechanism != "" {
			reading = append(reading, kgo.SASL(scram.Auth{User: "reader", Pass: "reader"}.AsSha256Mechanism()))
		}
		reader, err := kgo.NewClient(reading...)
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		for len(values) < 2 && ctx.Err() == nil {
			reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Key)+" "+string(r.Value)) })
		}
		cancel()
		if diff := cmp.Diff([]string{"acme " + sampleJSON, "acme " + sampleJSON}, values); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mechanism, diff)
		}
		reader.Close()
		cluster.Close()
	}
	for _, bad := range []feedback.KafkaSettings{{}, {Brokers: []string{"h:1"}}, {Topic: "t"}, {Brokers: []string{"h:1"}, Topic: "t", SASL: feedback.SASL{Mechanism: "gssapi"}}} {
		if _, err := feedback.NewKafka(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
