// Package form makes forms of JSON Schemas, and JSON of what people write into them. If a form
// cannot ask for a value, the person writes it as JSON in a field of its own. Other packages
// check whether a value fits its schema; the form shows the problems beside its fields.
package form
