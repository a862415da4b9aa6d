// Package form makes forms of JSON Schemas, and JSON of what people write into them. What a
// form cannot ask for is written as JSON in a field of its own. Whether a value fits its
// schema is for others to tell; their problems are put beside the fields.
package form
