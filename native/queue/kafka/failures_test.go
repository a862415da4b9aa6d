package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/kafka"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

// one is an engine with a cluster that a test disturbs, and its queue q.
func one(t *testing.T) (*kfake.Cluster, *kafka.Engine) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	e, err := kafka.Open(t.Context(), "kafka://"+strings.Join(cluster.ListenAddrs(), ","), kafka.Access{}, queuetest.Bounds, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if err := e.Declare(t.Context(), "q", "k1"); err != nil {
		t.Fatal(err)
	}
	return cluster, e
}

func someJob(id string) *queue.Job {
	return &queue.Job{ID: id, Queue: "q", Principal: "p", Deadline: time.Now().Add(time.Hour), Key: "k1", Body: []byte("body")}
}

// A job that may not have been added is an error each time, and is not added by a second
// record.
func TestEnqueueFails(t *testing.T) {
	t.Parallel()
	cluster, e := one(t)
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		in := r.(*kmsg.ProduceRequest)
		out := in.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range in.Topics {
			of := kmsg.NewProduceResponseTopic()
			of.Topic, of.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, kerr.InvalidRecord.Code
				of.Partitions = append(of.Partitions, p)
			}
			out.Topics = append(out.Topics, of)
		}
		return out, nil, true
	})
	j := someJob("a")
	for range 2 {
		if err := e.Enqueue(t.Context(), j); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("%v", err)
		}
	}
	if end, err := e.Await(t.Context(), j, nil); err != nil || end.State != queue.Expired || end.Attempts == 0 {
		t.Errorf("%+v, %v", end, err)
	}
}

// A gateway keeps nothing of a job whose caller has left.
func TestForgetsWhoHasLeft(t *testing.T) {
	t.Parallel()
	_, e := one(t)
	left := errors.New("the caller has left")
	for _, id := range []string{"a", "b"} {
		j := someJob(id)
		if err := e.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(left)
		if _, err := e.Await(ctx, j, nil); !errors.Is(err, left) {
			t.Error(err)
		}
	}
	if n := e.Held(); n != 0 {
		t.Errorf("%d jobs are kept", n)
	}
}

// A worker that cannot commit what it has polled runs none of it, and it is not lost.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	cluster, e := one(t)
	var refused atomic.Bool
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		refused.Store(true)
		in := r.(*kmsg.OffsetCommitRequest)
		out := in.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range in.Topics {
			of := kmsg.NewOffsetCommitResponseTopic()
			of.Topic, of.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, kerr.UnknownServerError.Code
				of.Partitions = append(of.Partitions, p)
			}
			out.Topics = append(out.Topics, of)
		}
		return out, nil, true
	})
	if err := e.Enqueue(t.Context(), someJob("a")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := e.Lease(ctx, "q", "w", 1)
	if err == nil || len(got) > 0 {
		t.Fatalf("%d jobs are leased: %v", len(got), err)
	}
	if got, err = e.Lease(ctx, "q", "w", 1); err != nil || len(got) != 1 || got[0].Job().ID != "a" || !refused.Load() {
		t.Errorf("%d jobs are leased: %v", len(got), err)
	}
}

// The list of queues is kept however long its gateways run.
func TestQueuesAreKept(t *testing.T) {
	t.Parallel()
	cluster, _ := one(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeTopic, "tool.queues"
	r.Resources = append(r.Resources, of)
	got, err := r.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	policy := ""
	for _, c := range got.Resources[0].Configs {
		if c.Name == "cleanup.policy" && c.Value != nil {
			policy = *c.Value
		}
	}
	if policy != "compact" {
		t.Errorf("the policy is %q", policy)
	}
}
