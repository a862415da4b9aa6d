// Package schemas writes the schemas of tools' arguments for those who read them: as a
// signature ([Signature]), without what does not help a model ([Compact]), and in a form
// for clients that refuse parts of JSON Schema ([Strict]).
//
// Schemas come from untrusted servers. Every function is pure and bounded, and returns the
// same for the same input. A schema that is too large, too deep or no strict JSON is
// returned as it is. References never leave the document.
package schemas
