package schemas

// MostSteps is the budget of one schema.
const MostSteps = mostSteps

// Decimal is the form of a number.
func Decimal(number string) (form string, whole bool) { return decimal(number) }

// Steps returns how many steps it takes to make a schema strict, and to read the arguments
// for a signature off it.
func Steps(schema []byte) (strict, arguments int) {
	root := parse(schema, maxDepth)
	b := newBuilder(root, map[*value]bool{}, 3)
	_, _ = b.build(spec{root, anyObject}, nil)
	g := newGatherer(root)
	g.gather(root, 0, true)
	return mostSteps - b.steps, mostSteps - g.steps
}
