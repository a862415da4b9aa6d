// Package conformance holds the clients of models, and the endpoint that tests use, against
// the libraries of the formats' owners: their types, their decoders and what they have
// recorded. It consists of tests.
package conformance
