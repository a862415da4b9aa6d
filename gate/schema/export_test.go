package schema

// ByLibrary returns the schema as one whose every check the library makes, and
// whether it was a plain one before.
func ByLibrary(s *Schema) (all *Schema, wasPlain bool) {
	own := *s
	own.plain = nil
	return &own, s.plain != nil
}
