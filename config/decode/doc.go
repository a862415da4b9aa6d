// Package decode reads the settings of a package out of a tree, strictly: each
// section of a file is a struct that the package which uses it declares once.
//
// What a field may be is in its struct tags, which the schema, the documentation,
// completion and overrides read as well:
//
//	config:"name"     the key in the file
//	default:"text"    the value of an absent key, as it would be written
//	enum:"a|b"        the allowed texts
//	min:"…" max:"…"   the allowed range, in the notation of the type
//	format:"name"     a further check, by name; see [Format]
//	required:"true"   an absent or empty value is an error
//	list:"one"        a list of one may be written as its element alone
//	config:"-"        the field is no setting
//
// The comment of a field is its sentence in the documentation and says what its
// absence means. Credentials have the type secret.Text of config/secret. What several values
// together can have wrong, the section says itself, as a [Checker].
package decode
