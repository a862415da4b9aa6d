// Package model is what an agent needs of a language model, whatever the wire format of the
// endpoint is: a conversation with tools goes in, and the model's next turn comes out. The
// packages below it are the clients of the formats.
//
// A client makes one request for each [Model.Infer] and does not repeat it. The agent has a
// budget and a journal, so it decides about a repetition. A client reads nothing of the
// environment and sends to no other address than the one that it was given.
//
// Everything that an endpoint answers comes from outside. A turn is bounded in bytes and
// in calls. An error in a call is kept with that call, so that the model can be told.
package model
