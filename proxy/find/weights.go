package find

// fieldWeights are the weights of the fields and how much their length counts, both as
// in BM25F.
var fieldWeights = [fields]fieldWeight{
	fieldName:         {4, 0.5},
	fieldTitle:        {3, 0.5},
	fieldFirst:        {2, 0.5},
	fieldRest:         {1, 0.7},
	fieldArgument:     {1, 0.6},
	fieldArgumentText: {0.5, 0.7},
	fieldEnum:         {0.4, 0.7},
}

// fieldWeight is the weight of a field.
type fieldWeight struct {
	weight float64
	b      float64 // from 0 to 1: how much a long field counts less
}

// serverNameWeight is how much a word of the name of a server counts more than one of
// its instructions.
const serverNameWeight = 3

// tuning are the other weights.
type tuning struct {
	k1            float64
	serverK1      float64
	serverB       float64
	server        float64 // of the words of the server
	serverTools   float64 // of the tools of the server
	relation      [4]float64
	part          float64 // of one word of an entry of several
	similar       float64 // of a word that is only spelled alike
	verb          float64 // of a word that is a common verb
	weak          float64 // of a word that fits any request
	number        float64 // of a number
	rarer         float64 // how much a rarer word that stands for another counts more than it
	cover         float64 // of the part of the query that matches
	nameCover     float64 // of the part of the name that matches
	action        float64 // of an item that reads when the query reads
	actionAgainst float64 // of an item that writes when the query reads
	step          float64 // of the best step, against the whole query
	served        float64 // of how well a hit serves a step, against those after it
	mass          float64 // how much more a long step counts than a short one
	twin          float64 // of a tool after one of the same name of another server
	floor         float64 // part of the best score that a match needs
}

var weights = tuning{
	k1: 2, serverK1: 1.2, serverB: 0.5, server: 0.5, serverTools: 0.1,
	relation: [4]float64{0.9, 0.4, 0.4, 0.25},
	part:     0.6, similar: 0.6, verb: 0.6, weak: 0.5, number: 0.3, rarer: 0.5, cover: 0.3, nameCover: 0.4,
	action: 0.03, actionAgainst: 0.05, step: 0.5, served: 0.9, twin: 0.8, mass: 0.5, floor: 0.1,
}
