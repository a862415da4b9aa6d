// Package conformance compares the clients of models, and the endpoint that tests use, with
// the libraries of the companies that own the formats: with their types, their decoders and
// their recorded messages. It consists of tests.
package conformance
