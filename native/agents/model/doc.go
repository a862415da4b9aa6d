// Package model is what an agent needs of a language model: a conversation with tools
// goes in, and the model's next turn comes out, whatever the wire format of the endpoint
// is. The packages below it are the clients of the formats.
//
// A client makes one request for each [Model.Infer] and repeats none: who asks has a
// budget and a journal, so it decides. Nothing of the environment is read, and nothing is
// sent to another address than the one that was given.
//
// Everything that an endpoint answers comes from outside. A turn is bounded in bytes and
// in calls, and what is wrong in a call stays with the call, so that the model can be
// told.
package model
