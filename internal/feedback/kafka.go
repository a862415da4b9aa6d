package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Kafka writes each event to a topic as JSON. The key is the tenant, so that the events
// of a tenant keep their order.
type Kafka struct {
	options []kgo.Opt
	client  *kgo.Client // created for the first batch
}

// NewKafka returns a receiver that connects for the first batch. It reads the file of
// certificate authorities.
func NewKafka(o KafkaSettings) (*Kafka, error) {
	if len(o.Brokers) == 0 || o.Topic == "" {
		return nil, errors.New("kafka: brokers and a topic are required")
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.DefaultProduceTopic(o.Topic), kgo.ClientID("toolgate"),
		kgo.RequiredAcks(kgo.AllISRAcks()), // a batch that is sent twice is stored once
		kgo.MaxBufferedRecords(maxBatch), kgo.DialTimeout(sendTime / 2),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()),
	}
	if o.TLS {
		verify, err := o.authorities()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(verify))
	}
	switch o.SASL.Mechanism {
	case "":
	case "plain":
		options = append(options, kgo.SASL(plain.Auth{User: o.SASL.User, Pass: o.SASL.Password.Reveal()}.AsMechanism()))
	case "scram-sha-256":
		options = append(options, kgo.SASL(scram.Auth{User: o.SASL.User, Pass: o.SASL.Password.Reveal()}.AsSha256Mechanism()))
	case "scram-sha-512":
		options = append(options, kgo.SASL(scram.Auth{User: o.SASL.User, Pass: o.SASL.Password.Reveal()}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("kafka: %q is not a mechanism; write plain, scram-sha-256 or scram-sha-512", o.SASL.Mechanism)
	}
	if err := kgo.ValidateOpts(options...); err != nil {
		return nil, fmt.Errorf("kafka: the settings of Kafka: %w", err)
	}
	return &Kafka{options: options}, nil
}

// Send implements [Receiver].
func (k *Kafka) Send(ctx context.Context, _ string, batch []Event) error {
	if k.client == nil {
		client, err := kgo.NewClient(k.options...)
		if err != nil {
			return &FinalError{fmt.Errorf("make a client of Kafka: %w", err)}
		}
		k.client = client
	}
	records := make([]*kgo.Record, len(batch))
	for i := range batch {
		value, err := json.Marshal(&batch[i])
		if err != nil {
			return &FinalError{fmt.Errorf("write an event: %w", err)}
		}
		records[i] = &kgo.Record{Key: []byte(batch[i].Tenant), Value: value, Timestamp: batch[i].Time}
	}
	err := k.client.ProduceSync(ctx, records...).FirstErr()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write to Kafka: %w", err)
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidTopicException) {
		return &FinalError{err}
	}
	return err
}

// Close implements [Receiver].
func (k *Kafka) Close() {
	if k.client != nil {
		k.client.Close()
	}
}
