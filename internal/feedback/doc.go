// Package feedback reports every execution of a tool to a [Receiver], such as a
// [Webhook] or a [Kafka] topic. A [Feed] queues the events and sends them in batches.
// It never delays a call: what a receiver does not take in time is dropped and counted.
package feedback
