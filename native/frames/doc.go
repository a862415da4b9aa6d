// Package frames carries questions and answers over a Unix socket of its own, beside the
// gRPC connection of a plugin. A question that is asked for every call takes a sixth of
// the time that it takes over gRPC, because nothing stands between the caller and the
// socket.
//
// A connection begins with a proof that both sides took part in the handshake of the
// plugin: the gateway writes the first half of the key that it gave the plugin there, and
// the plugin the second half. Then frames follow in both directions:
//
//	length of the rest, 4 bytes | kind, 1 byte | id, 8 bytes | body
//
// Numbers are big-endian. The gateway asks and cancels; the plugin answers each question
// once, in any order, with an answer or a failure, whose body is a text.
package frames
