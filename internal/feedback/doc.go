// Package feedback tells others of every execution of a tool: a webhook, a topic
// of Kafka. It never holds a call up: what a receiver does not take in time is
// dropped and counted.
package feedback
