// Package vectors ranks what can be found by the vectors that an embedding model makes of
// texts. The model is behind an OpenAI-compatible endpoint, which the operator names: the
// texts of definitions and the queries are sent there, and nowhere else.
//
// The vectors of definitions are made in the background, once for each text and model,
// and kept in a [Store]. The vector of a query is asked for while its search waits, with
// a short deadline. Without it the words alone decide.
package vectors
